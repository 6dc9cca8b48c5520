/** The loss report of one mark: what left the window, what replaced it, and the way back. */

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { api, ApiError } from "../api.js";
import { clock, dollars, number, percent, plural } from "../format.js";
import { listenToKeys } from "../keys.js";
import { useStore } from "../store.js";
import { nameOfMark, undoneMarks } from "../timeline.js";
import { EntryRow } from "./entry_row.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

const SHOWN = 40;
const GROUPS = [
  { key: "summarised", title: "Summarised", hint: "left the window; the summary covers them" },
  { key: "archived", title: "Removed", hint: "left the window without a summary" },
  { key: "cleared", title: "Shortened", hint: "a marker or an excerpt is in their place" },
  { key: "kept", title: "Kept", hint: "still sent word for word" },
];

/** @param {{session: OpenSession, entry: number, actions: any, onClose: () => void}} props */
export function Report({ session, entry, actions, onClose }) {
  const timeline = useStore(session.store, (state) => state.timeline);
  const revision = useStore(session.store, (state) => state.revision);
  const mark = timeline.marks.find((one) => one.entry_id === entry);
  const { details, failure } = useDetails(session, entry, mark?.kind ?? "", revision);
  const heading = useRef(/** @type {any} */ (null));
  useEffect(() => heading.current?.focus(), []);

  const isUndone = undoneMarks(timeline.marks).has(entry);
  // An undo reverts the newest change, so later ones are undone first.
  const later = timeline.undoable.filter((one) => one > entry).reverse();
  const canUndo = timeline.undoable.includes(entry);
  const undo = async () => {
    for (const one of [...later, entry]) {
      const done = await session.attempt(() => api.undo(session.id, one).then(() => true));
      if (!done) break;
    }
    session.reloadTimeline();
  };
  useEffect(() => listenToKeys({ u: () => canUndo && undo() }), [canUndo, later.length]);
  if (!mark) return null;
  const report = details?.report ?? null;
  return html`
    <aside class="report" aria-labelledby="report-title">
      <header>
        <div>
          <h2 id="report-title" tabindex="-1" ref=${heading}>${mark.kind === "compaction" ? "Loss report" : nameOfMark(mark)}</h2>
          <p class="hint">#${entry} · ${clock(mark.at)}${mark.trigger ? ` · ${mark.trigger}` : ""}${isUndone ? " · undone" : ""}</p>
        </div>
        <button type="button" class="ghost icon-button" aria-label="Close the report" onClick=${onClose}><${Icon} name="close" /></button>
      </header>
      <div class="report-body">
        <${BeforeAfter} mark=${mark} window=${timeline.points[timeline.points.length - 1]?.window ?? 0} />
        <div class="report-actions">
          ${canUndo && html`<button type="button" class="primary" onClick=${undo}><${Icon} name="undo" />Undo<kbd>u</kbd></button>`}
          <span class="hint">${explainUndo(mark, canUndo, isUndone, later)}</span>
        </div>
        ${failure && html`<p class="notice error" role="alert">${failure}</p>`}
        ${report && html`<p class="why">${report.why}</p><${Facts} report=${report} />`}
        ${details?.summary && html`
          <details class="summary-text" open>
            <summary><h3>Summary that the model reads</h3></summary>
            <div class="summary-scroll" tabindex="0" role="group" aria-label="Summary"><${Markdown} text=${details.summary} /></div>
          </details>
        `}
        ${report && GROUPS.map(({ key, title, hint }) => html`<${Fate} key=${key} session=${session} title=${title} hint=${hint} ids=${report[key] ?? []} isOpen=${key !== "kept"} actions=${actions} revision=${revision} />`)}
      </div>
    </aside>
  `;
}

/** @param {any} mark @param {boolean} canUndo @param {boolean} isUndone @param {number[]} later */
function explainUndo(mark, canUndo, isUndone, later) {
  if (isUndone) return "This change was undone; everything it took is back in the window.";
  if (canUndo && later.length) return `Also undoes what came after it: ${later.map((one) => `#${one}`).join(", ")}.`;
  if (canUndo) return `Returns the window to about ${number(mark.tokens_before)} tokens.`;
  if (mark.kind === "undo") return `Reverted #${mark.target}.`;
  return mark.kind === "model" ? `Continues with ${mark.model}.` : "Nothing is deleted: the journal keeps every entry.";
}

/** Read the report of a compaction or a clearing. */
function useDetails(/** @type {OpenSession} */ session, /** @type {number} */ entry, /** @type {string} */ kind, /** @type {number} */ revision) {
  const [details, setDetails] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState("");
  useEffect(() => {
    if (kind !== "compaction" && kind !== "results_cleared") return undefined;
    let isOver = false;
    api.compaction(session.id, entry)
      .then((found) => !isOver && setDetails(found))
      .catch((error) => {
        if (!(error instanceof ApiError)) throw error;
        if (!isOver) setFailure(error.message);
      });
    return () => { isOver = true; };
  }, [entry, kind, revision]);
  return { details, failure };
}

/** @param {{mark: any, window: number}} props */
function BeforeAfter({ mark, window }) {
  const top = Math.max(mark.tokens_before, mark.tokens_after, 1);
  const change = mark.tokens_after - mark.tokens_before;
  const bar = (/** @type {string} */ name, /** @type {number} */ tokens) => html`
    <div class="ba-row"><span>${name}</span><span class="ba-bar"><span class=${name.toLowerCase()} style=${{ width: `${(tokens / top) * 100}%` }}></span></span><b>${number(tokens)}</b></div>
  `;
  return html`
    <div class="before-after">
      ${bar("Before", mark.tokens_before)}${bar("After", mark.tokens_after)}
      <p><b>${change > 0 ? "+" : "−"}${number(Math.abs(change))}</b> tokens (${percent(Math.abs(change), mark.tokens_before)})${window ? html`, now ${percent(mark.tokens_after, window)} of the window` : ""}</p>
    </div>
  `;
}

/** Who wrote the summary, and what it cost. @param {{report: any}} props */
export function Facts({ report }) {
  const attempts = report.attempts ?? [];
  const check = report.check;
  return html`
    <dl class="facts-list">
      ${GROUPS.map(({ key, title }) => html`<div><dt>${title}</dt><dd>${number((report[key] ?? []).length)}</dd></div>`)}
      ${(report.summarised ?? []).length > 0 && html`<div><dt>Written by</dt><dd>${report.author}</dd></div>`}
      ${attempts.map((/** @type {any} */ one) => html`<div class="wide"><dt>${one.author}</dt><dd>${one.outcome}${one.tokens ? ` · ${number(one.tokens)} tokens · ${dollars(one.cost)}` : ""}</dd></div>`)}
      ${check && html`<div class="wide"><dt>Checked</dt><dd>${check.fault || `${plural((check.added ?? []).length, "point")} added`}</dd></div>`}
    </dl>
  `;
}

/** The entries that met one fate. */
function Fate({ session, title, hint, ids, isOpen, actions, revision }) {
  const [entries, setEntries] = useState(/** @type {any[]} */ ([]));
  const [isShown, setShown] = useState(isOpen);
  const [limit, setLimit] = useState(SHOWN);
  useEffect(() => {
    if (!isShown || !ids.length) return undefined;
    let isOver = false;
    readEntries(session.id, ids.slice(0, limit)).then((found) => !isOver && setEntries(found)).catch(() => {});
    return () => { isOver = true; };
  }, [isShown, limit, revision]);
  if (!ids.length) return null;
  return html`
    <details class="fate" open=${isOpen} onToggle=${(/** @type {any} */ event) => setShown(event.target.open)}>
      <summary><h3>${title} <span class="count">${number(ids.length)}</span></h3><span class="hint">${hint}</span></summary>
      <ul class="entries">
        ${entries.map((one) => html`<${EntryRow} key=${one.id} session=${session} entry=${one} actions=${actions} />`)}
      </ul>
      ${ids.length > limit && html`<button type="button" class="link" onClick=${() => setLimit(limit + 4 * SHOWN)}>Show more</button>`}
    </details>
  `;
}

/** Read journal entries by their ids; the server has them in pages. @param {string} session @param {number[]} ids */
async function readEntries(session, ids) {
  const wanted = new Set(ids);
  const last = Math.max(...ids);
  const found = [];
  let after = Math.min(...ids) - 1;
  while (after < last) {
    const page = await api.entries(session, after, 200);
    if (!page.length) break;
    found.push(...page.filter((/** @type {any} */ one) => wanted.has(one.id)));
    after = page[page.length - 1].id;
  }
  return found;
}
