/** The list of sessions, and the search in their names and messages. */

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { api, ApiError } from "../api.js";
import { ago, oneLine, shortPath } from "../format.js";
import { navigate } from "../router.js";
import { listRevision, sessionList } from "../session_list.js";
import { useStore } from "../store.js";
import { nextTheme, readTheme } from "../theme.js";
import { Icon, Logo } from "./icons.js";

const REFRESH = 5_000;
const PAGE = 60;

/** @param {{current: string, isOpen: boolean, onClose: () => void, onNew: () => void, onHelp: () => void, onRefused: (error: ApiError) => void}} props */
export function Sidebar({ current, isOpen, onClose, onNew, onHelp, onRefused }) {
  const [text, setText] = useState("");
  const [theme, setTheme] = useState(readTheme());
  const { sessions, more, loadMore, failure } = useSessions(current, onRefused);
  const hits = useSearch(text);
  const shown = hits ?? sessions.map((session) => ({ session, excerpt: "" }));
  const open = (/** @type {string} */ id) => {
    navigate({ session: id });
    onClose();
  };
  return html`
    <nav class=${`sidebar ${isOpen ? "open" : ""}`} aria-label="Sessions">
      <div class="brand">
        <a href="#/" onClick=${onClose}><${Logo} /><span>Clew</span></a>
        <button type="button" class="ghost icon-button close-menu" onClick=${onClose} aria-label="Close the list"><${Icon} name="close" /></button>
      </div>
      <button type="button" class="new-session" onClick=${onNew}><${Icon} name="plus" />New session<kbd>o</kbd></button>
      <div class="search">
        <${Icon} name="search" />
        <input id="session-search" type="search" placeholder="Search" aria-label="Search sessions" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)}
          onKeyDown=${(/** @type {any} */ event) => { if (event.key === "Escape") { setText(""); event.target.blur(); } if (event.key === "Enter" && shown.length) open(shown[0].session.id); }} />
        <kbd>/</kbd>
      </div>
      ${failure && html`<p class="hint problem" role="status">${failure}</p>`}
      <ul class="sessions">
        ${shown.map(({ session, excerpt }) => html`<${Row} key=${session.id} session=${session} excerpt=${excerpt} isCurrent=${session.id === current} onOpen=${open} />`)}
        ${!shown.length && html`<li class="hint none">${hits ? "Nothing found" : "No sessions yet"}</li>`}
        ${!hits && more && html`<li><button type="button" class="link" onClick=${loadMore}>More sessions</button></li>`}
      </ul>
      <div class="sidebar-foot">
        <button type="button" class="ghost" onClick=${() => setTheme(nextTheme())} title="Dark, light, or as the system (d)"><${Icon} name=${theme === "dark" ? "moon" : theme === "light" ? "sun" : "auto"} />${theme === "system" ? "System colours" : theme === "dark" ? "Dark" : "Light"}</button>
        <button type="button" class="ghost" onClick=${onHelp} aria-label="Keyboard shortcuts"><kbd>?</kbd></button>
      </div>
    </nav>
  `;
}

/** @param {{session: any, excerpt: string, isCurrent: boolean, onOpen: (id: string) => void}} props */
function Row({ session, excerpt, isCurrent, onOpen }) {
  const title = session.name || oneLine(session.title || "", 80) || "New session";
  const state = session.questions ? "asks" : session.executing ? "running" : "";
  return html`
    <li>
      <a href=${`#/s/${encodeURIComponent(session.id)}`} aria-current=${isCurrent ? "page" : undefined} onClick=${(/** @type {Event} */ event) => { event.preventDefault(); onOpen(session.id); }}>
        <span class="row-title">${state && html`<span class=${`dot ${state}`} title=${state === "asks" ? "waits for an answer" : "works"}></span>`}<span class="row-name">${title}</span></span>
        <span class="row-sub"><span>${excerpt ? oneLine(excerpt, 90) : shortPath(session.cwd, 1)}</span><time>${ago(session.updated_at, Date.now() / 1000)}</time></span>
        ${state && html`<span class="sr-only">${state === "asks" ? "waits for an answer" : "is working"}</span>`}
      </a>
    </li>
  `;
}

/** Keep the list up to date while the page is visible. */
function useSessions(/** @type {string} */ current, /** @type {(error: ApiError) => void} */ onRefused) {
  const list = useStore(sessionList, (value) => value);
  const [failure, setFailure] = useState("");
  const revision = useStore(listRevision, (count) => count);
  const limit = useRef(PAGE);
  const load = async () => {
    try {
      const page = await api.listSessions(limit.current);
      sessionList.set(page);
      setFailure("");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 401) onRefused(error);
      setFailure(error.message);
    }
  };
  useEffect(() => {
    load();
    const timer = setInterval(() => document.visibilityState === "visible" && load(), REFRESH);
    return () => clearInterval(timer);
  }, [current, revision]);
  const loadMore = () => {
    limit.current += 2 * PAGE;
    load();
  };
  return { sessions: list.sessions, more: list.next, loadMore, failure };
}

/** Search while the user types; null if nothing is searched for. @param {string} text */
function useSearch(text) {
  const [hits, setHits] = useState(/** @type {any[] | null} */ (null));
  useEffect(() => {
    if (!text.trim()) {
      setHits(null);
      return undefined;
    }
    let isOver = false;
    const timer = setTimeout(() => {
      api.searchSessions(text.trim()).then((found) => !isOver && setHits(found)).catch(() => !isOver && setHits([]));
    }, 150);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [text]);
  return hits;
}
