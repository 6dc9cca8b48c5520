/** One session: its header, its window, the chosen tab, and the report beside them. */

import { html, useEffect, useLayoutEffect, useMemo, useState } from "../vendor/htm-preact.js";
import { api } from "../api.js";
import { oneLine, shortPath } from "../format.js";
import { isTyping, listenToKeys } from "../keys.js";
import { TABS, navigate } from "../router.js";
import { listedTitle, sessionList } from "../session_list.js";
import { useStore } from "../store.js";
import { setTheme } from "../theme.js";
import { Agents } from "./agents.js";
import { Chat } from "./chat.js";
import { copyText } from "./code.js";
import { Icon } from "./icons.js";
import { Journal } from "./journal.js";
import { Preview } from "./preview.js";
import { Report } from "./report.js";
import { DeleteDialog, forkSession } from "./session_actions.js";
import { Simulator } from "./simulator.js";
import { ContextWindow } from "./window.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

const REPORTED = new Set(["compaction", "results_cleared", "clear", "rewind", "reasoning_dropped", "undo", "model"]);
const LABELS = { chat: "Chat", journal: "Journal", agents: "Agents", simulator: "Simulator" };
const MODES = { default: "Ask before changes", acceptEdits: "Accept edits", plan: "Plan", bypassPermissions: "Allow everything" };

/** @param {{session: OpenSession, tab: string, onMenu: () => void, onNew: () => void}} props */
export function SessionView({ session, tab, onMenu, onNew }) {
  const [report, setReport] = useState(0);
  const [isPreviewing, setPreviewing] = useState(false);
  const [isDeleting, setDeleting] = useState(false);
  const [jump, setJump] = useState({ entry: 0, count: 0 });
  const failure = useStore(session.store, (state) => (state.isLoaded ? null : state.failure));
  const actions = useMemo(() => makeActions(session, { setReport, setJump, onNew }), [session]);
  useTitle(session);
  // In the commit that shows the session: no key goes to the one before it, and none is lost.
  useLayoutEffect(
    () => listenToKeys({
      "[": () => setReport((now) => nextReport(session, now, -1)),
      "]": () => setReport((now) => nextReport(session, now, 1)),
      k: () => setPreviewing(true),
      f: () => forkSession(session),
      x: () => setDeleting(true),
      Escape: (event) => onEscape(event, session, report, setReport),
    }),
    [session, report],
  );
  useEffect(() => {
    // What is shown next reads from the session.
    if (session.store.get().connection === "closed") session.reopen();
  }, [tab, report, isPreviewing]);
  if (failure) {
    return html`
      <header class="topbar"><button type="button" class="ghost icon-button menu" onClick=${onMenu} aria-label="Sessions"><${Icon} name="menu" /></button></header>
      <div class="home"><h1>This session cannot be opened</h1><p role="alert">${failure.message}</p></div>
    `;
  }
  return html`
    <div class=${`session ${report ? "with-report" : ""}`} data-session=${session.id}>
      <${Header} session=${session} onMenu=${onMenu} onDelete=${() => setDeleting(true)} />
      <${ContextWindow} session=${session} selected=${report} onMark=${(/** @type {number} */ id) => setReport(id === report ? 0 : id)} onCall=${actions.jumpTo} onCompact=${() => setPreviewing(true)} />
      <div class="tabs" role="tablist" aria-label="Views of the session">
        ${TABS.map((name) => html`<button type="button" role="tab" id=${`tab-${name}`} aria-selected=${tab === name} aria-controls="view" tabindex=${tab === name ? 0 : -1} onClick=${() => navigate({ tab: name })} onKeyDown=${moveTab}>${LABELS[/** @type {"chat"} */ (name)]}</button>`)}
      </div>
      <div class="view" id="view" role="tabpanel" aria-labelledby=${`tab-${tab}`}>
        ${tab === "chat" && html`<${Chat} session=${session} jump=${jump} actions=${actions} />`}
        ${tab === "journal" && html`<${Journal} session=${session} actions=${actions} jump=${jump} />`}
        ${tab === "agents" && html`<${Agents} session=${session} />`}
        ${tab === "simulator" && html`<${Simulator} session=${session} />`}
      </div>
      ${report > 0 && html`<${Report} key=${report} session=${session} entry=${report} actions=${actions} onClose=${() => setReport(0)} />`}
      ${isPreviewing && html`<${Preview} session=${session} actions=${actions} onClose=${() => setPreviewing(false)} />`}
      ${isDeleting && html`<${DeleteDialog} session=${session} onClose=${() => setDeleting(false)} />`}
    </div>
  `;
}

/** @param {KeyboardEvent & {currentTarget: any}} event */
function moveTab(event) {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move) return;
  const tabs = [...event.currentTarget.parentElement.children];
  const next = tabs[(tabs.indexOf(event.currentTarget) + move + tabs.length) % tabs.length];
  next.focus();
  next.click();
}

/** Esc closes the report, or aborts the run. */
function onEscape(/** @type {KeyboardEvent} */ event, /** @type {OpenSession} */ session, /** @type {number} */ report, /** @type {(id: number) => void} */ setReport) {
  if (document.querySelector("dialog[open]")) return;
  if (report) {
    setReport(0);
  } else if (session.store.get().transcript.since !== null) {
    session.attempt(() => api.abort(session.id));
  } else if (isTyping(event.target)) {
    /** @type {HTMLElement} */ (event.target).blur();
  }
}

/** @param {OpenSession} session @param {number} now @param {number} move */
function nextReport(session, now, move) {
  const ids = session.store.get().timeline.marks.filter((one) => REPORTED.has(one.kind)).map((one) => one.entry_id);
  if (!ids.length) return now;
  const at = ids.indexOf(now);
  if (at < 0) return move < 0 ? ids[ids.length - 1] : ids[0];
  return ids[Math.max(0, Math.min(ids.length - 1, at + move))];
}

/** What parts of the session ask of each other. */
function makeActions(/** @type {OpenSession} */ session, /** @type {any} */ { setReport, setJump, onNew }) {
  const jumpTo = (/** @type {number} */ entry) => setJump((/** @type {any} */ now) => ({ entry, count: now.count + 1 }));
  return {
    openReport: (/** @type {number} */ id) => setReport(id),
    jumpTo,
    /** Show what a line did, and carry out what it leaves to the client. @param {any} outcome */
    applyOutcome(outcome) {
      const { effect, message, success = true, kind } = outcome;
      if (message && kind !== "shell") session.say(message, success ? "info" : "error", "reply");
      if (effect?.type === "open_session") navigate({ session: effect.session_id });
      if (effect?.type === "new_session") onNew();
      if (effect?.type === "copy_text") copyText(effect.text);
      if (effect?.type === "set_theme") setTheme(effect.theme === "dark" || effect.theme === "light" ? effect.theme : "system");
      if (effect?.type === "pick_session") document.getElementById("session-search")?.focus();
      if (effect?.type === "show_entry") {
        navigate({ tab: "journal" });
        jumpTo(effect.entry_id);
      }
    },
  };
}

/** @param {OpenSession} session */
function useTitle(session) {
  const name = useName(session);
  const asks = useStore(session.store, (state) => state.transcript.requests.length > 0);
  useEffect(() => {
    document.title = `${asks ? "(?) " : ""}${name} – Clew`;
    return () => {
      document.title = "Clew";
    };
  }, [name, asks]);
}

/** Return the name of a session, or the beginning of its first prompt. @param {OpenSession} session */
function useName(session) {
  const name = useStore(session.store, (state) => state.name);
  const title = useStore(sessionList, () => listedTitle(session.id));
  const first = useStore(session.store, (state) => state.transcript.blocks.find((one) => one.type === "prompt")?.text ?? "");
  return name || oneLine(title || first, 70) || "New session";
}

/** @param {{session: OpenSession, onMenu: () => void, onDelete: () => void}} props */
function Header({ session, onMenu, onDelete }) {
  const name = useName(session);
  const model = useStore(session.store, (state) => state.model);
  const mode = useStore(session.store, (state) => state.mode);
  const cwd = useStore(session.store, (state) => state.cwd);
  const [isRenaming, setRenaming] = useState(false);
  const rename = async (/** @type {any} */ event) => {
    const wanted = event.target.value.trim();
    setRenaming(false);
    if (wanted && wanted !== name) await session.attempt(() => api.set(session.id, "name", { name: wanted }));
  };
  return html`
    <header class="topbar">
      <button type="button" class="ghost icon-button menu" onClick=${onMenu} aria-label="Sessions"><${Icon} name="menu" /></button>
      ${isRenaming
        ? html`<input class="rename" aria-label="Name of the session" value=${session.store.get().name} ref=${(/** @type {any} */ one) => one?.focus()} onBlur=${rename} onKeyDown=${(/** @type {any} */ event) => { if (event.key === "Enter") rename(event); if (event.key === "Escape") { event.stopPropagation(); setRenaming(false); } }} />`
        : html`<h1 title=${name}><button type="button" class="plain" onClick=${() => setRenaming(true)} title="Rename">${name}</button></h1>`}
      <${Connection} session=${session} />
      <span class="facts">
        <span class="fact cwd" title=${cwd}>${shortPath(cwd, 2)}</span>
        <${ModelChoice} session=${session} model=${model} />
        <select class="mode" aria-label="Permission mode" value=${mode} onChange=${(/** @type {any} */ event) => session.attempt(() => api.set(session.id, "mode", { mode: event.target.value }))}>
          ${Object.entries(MODES).map(([value, label]) => html`<option value=${value} selected=${value === mode}>${label}</option>`)}
        </select>
        <a class="fact" href=${api.exportAddress(session.id, "markdown")} download=${`${session.id}.md`}>Export</a>
        <button type="button" class="ghost icon-button" aria-label="Fork the session" title="Fork the session: continue in a copy (f)" onClick=${() => forkSession(session)}><${Icon} name="fork" /></button>
        <button type="button" class="ghost icon-button" aria-label="Delete the session" title="Delete the session (x)" onClick=${onDelete}><${Icon} name="trash" /></button>
      </span>
    </header>
  `;
}

/** Whether events arrive, and a way to open a session that was closed. @param {{session: OpenSession}} props */
function Connection({ session }) {
  const connection = useStore(session.store, (state) => state.connection);
  const failure = useStore(session.store, (state) => state.failure);
  const words = connection === "offline" ? (failure?.message ?? connection) : connection;
  return html`
    <span class=${`connection ${connection}`} role="status" title=${failure?.message ?? connection}>
      <span class="dot"></span><span class="connection-text">${words}</span>
      ${connection === "closed" && html`<button type="button" class="link" title="A message opens the session too" onClick=${session.reopen}>Open again</button>`}
    </span>
  `;
}

/** @param {{session: OpenSession, model: string}} props */
function ModelChoice({ session, model }) {
  const [models, setModels] = useState(/** @type {string[]} */ ([]));
  const load = () => api.models().then((found) => setModels(namesOf(found))).catch(() => setModels([]));
  const names = [...new Set([model, ...models])];
  return html`
    <select class="model" aria-label="Model" value=${model} onFocus=${load} onChange=${(/** @type {any} */ event) => session.attempt(() => api.set(session.id, "model", { name: event.target.value }))}>
      ${names.map((one) => html`<option value=${one} selected=${one === model}>${one}</option>`)}
    </select>
  `;
}

/** @param {any} found @returns {string[]} */
const namesOf = (found) => (found.models ?? found).map((/** @type {any} */ one) => one.name ?? one.id ?? one);
