/**
 * The journal: every entry of the session, and where each stands now.
 *
 * Rows have one height, so only those near the visible part are in the page; entries are read in
 * pages as they come into sight.
 */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { api, ApiError } from "../api.js";
import { backOff } from "../events.js";
import { number } from "../format.js";
import { useStore } from "../store.js";
import { EntryRow, STANDINGS } from "./entry_row.js";
import { Dialog } from "./help.js";
import { Icon } from "./icons.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

const ROW = 40;
const MARGIN = 12;
const PAGE = 500;

/** @param {{session: OpenSession, actions: any, jump: {entry: number}}} props */
export function Journal({ session, actions }) {
  const revision = useStore(session.store, (state) => state.revision);
  const [text, setText] = useState("");
  const [filter, setFilter] = useState("");
  const [opened, setOpened] = useState(/** @type {any} */ (null));
  const entries = useEntries(session, revision);
  const hits = useRecall(session, text);
  const counts = useMemo(() => countStandings(entries), [entries]);
  const shown = useMemo(() => {
    if (hits) return hits;
    if (filter === "pinned") return entries.filter((one) => one.pinned);
    return filter ? entries.filter((one) => one.standing === filter) : entries;
  }, [entries, hits, filter]);
  return html`
    <div class="journal">
      <div class="journal-head">
        <div class="search wide">
          <${Icon} name="search" />
          <input type="search" value=${text} placeholder="Recall: search everything that was ever said" aria-label="Search the journal" onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
        </div>
        <div class="filters" role="group" aria-label="Show only">
          ${[["", "all", entries.length], ...Object.keys(STANDINGS).map((key) => [key, STANDINGS[/** @type {"removed"} */ (key)].label, counts[key] ?? 0]), ["pinned", "pinned", counts.pinned ?? 0]].map(([key, label, count]) => html`
            <button type="button" class=${`chip ${key}`} aria-pressed=${filter === key && !hits} disabled=${!count} onClick=${() => { setText(""); setFilter(String(key)); }}>${label} <b>${number(Number(count))}</b></button>
          `)}
        </div>
      </div>
      <${Rows} session=${session} entries=${shown} actions=${actions} onOpen=${setOpened} isFiltered=${Boolean(filter || hits)} />
      ${opened && html`<${EntryDialog} session=${session} entry=${opened} actions=${actions} onClose=${() => setOpened(null)} />`}
    </div>
  `;
}

/** @param {any[]} entries @returns {Record<string, number>} */
function countStandings(entries) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const one of entries) {
    counts[one.standing] = (counts[one.standing] ?? 0) + 1;
    if (one.pinned) counts.pinned = (counts.pinned ?? 0) + 1;
  }
  return counts;
}

/** Read all entries in pages; they are small, and any of them may stand elsewhere after a change. */
function useEntries(/** @type {OpenSession} */ session, /** @type {number} */ revision) {
  const [entries, setEntries] = useState(/** @type {any[]} */ ([]));
  useEffect(() => {
    let isOver = false;
    /** @type {any} */
    let timer = 0;
    const read = async () => {
      /** @type {any[]} */
      let found = [];
      for (let after = 0; ;) {
        const page = await api.entries(session.id, after, PAGE);
        if (isOver) return;
        found = [...found, ...page];
        if (page.length < PAGE) break;
        after = page[page.length - 1].id;
        setEntries((now) => (now.length > found.length ? now : found));
      }
      setEntries(found);
    };
    // A journal that lacks entries would look complete, so a failure is tried again.
    const attempt = (/** @type {number} */ count) => read().catch((error) => {
      if (!(error instanceof ApiError)) throw error;
      const isRefused = error.status >= 400 && error.status < 500 && error.status !== 429;
      if (!isOver && !isRefused) timer = setTimeout(attempt, backOff(count), count + 1);
    });
    attempt(0);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [session, revision]);
  return entries;
}

/** Search the journal; null if nothing is searched for. */
function useRecall(/** @type {OpenSession} */ session, /** @type {string} */ text) {
  const [hits, setHits] = useState(/** @type {any[] | null} */ (null));
  useEffect(() => {
    if (!text.trim()) {
      setHits(null);
      return undefined;
    }
    let isOver = false;
    const timer = setTimeout(() => {
      api.recall(session.id, text.trim()).then((found) => !isOver && setHits(hitsOf(found))).catch(() => !isOver && setHits([]));
    }, 200);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [text]);
  return hits;
}

/** Return what a search found as entries of a list. @param {any} found */
const hitsOf = (found) =>
  found.hits.map((/** @type {any} */ hit) => ({
    id: hit.entry_id,
    kind: hit.role === "note" || hit.role === "summary" ? hit.role : "message",
    role: hit.role,
    author: hit.tool || AUTHORS[/** @type {"user"} */ (hit.role)] || hit.role,
    text: hit.excerpts.join(" … "),
    standing: hit.standing,
    by: hit.by,
    tokens: 0,
  }));

const AUTHORS = { user: "you", assistant: "model" };

/** @param {{session: OpenSession, entries: any[], actions: any, onOpen: (entry: any) => void, isFiltered: boolean}} props */
function Rows({ session, entries, actions, onOpen, isFiltered }) {
  const scroller = useRef(/** @type {any} */ (null));
  const [place, setPlace] = useState({ top: 0, height: 800 });
  const isStuck = useRef(true);
  useEffect(() => {
    const element = scroller.current;
    let last = 0;
    let height = 0;
    const read = () => {
      // Only the user scrolls up; a browser that adjusts to new entries does not count.
      if (element.scrollHeight - element.scrollTop - element.clientHeight < ROW) isStuck.current = true;
      else if (element.scrollTop < last - 2 && element.scrollHeight === height) isStuck.current = false;
      last = element.scrollTop;
      height = element.scrollHeight;
      setPlace({ top: element.scrollTop, height: element.clientHeight });
    };
    element.addEventListener("scroll", read, { passive: true });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", read);
      observer.disconnect();
    };
  }, []);
  useEffect(() => {
    if (isFiltered) scroller.current.scrollTop = 0;
    else if (isStuck.current) scroller.current.scrollTop = scroller.current.scrollHeight;
  }, [entries.length, isFiltered]);
  const first = Math.max(0, Math.floor(place.top / ROW) - MARGIN);
  const end = Math.min(entries.length, Math.ceil((place.top + place.height) / ROW) + MARGIN);
  return html`
    <div class="scroller rows" ref=${scroller} tabindex="0" role="region" aria-label="Entries of the journal">
      <ul class="entries" style=${{ paddingTop: `${first * ROW}px`, paddingBottom: `${(entries.length - end) * ROW}px` }}>
        ${entries.slice(first, end).map((one) => html`<${EntryRow} key=${one.id} session=${session} entry=${one} actions=${actions} onOpen=${onOpen} />`)}
      </ul>
      ${!entries.length && html`<p class="hint none">Nothing here</p>`}
    </div>
  `;
}

/** An entry in full. */
function EntryDialog({ session, entry, actions, onClose }) {
  const [text, setText] = useState(entry.text);
  useEffect(() => {
    let isOver = false;
    api.history(session.id, entry.id - 1, 4)
      .then((items) => {
        const found = items.find((/** @type {any} */ one) => parseInt(one.id, 10) === entry.id && one.message);
        if (found && !isOver) setText(textOf(found.message));
      })
      .catch(() => {});
    return () => { isOver = true; };
  }, []);
  const standing = STANDINGS[/** @type {"removed"} */ (entry.standing)] ?? STANDINGS.record;
  return html`
    <${Dialog} title=${`#${entry.id} · ${entry.author || entry.kind}`} onClose=${onClose} wide>
      <p class="hint"><span class=${`standing ${entry.standing}`}>${standing.label}</span> ${standing.hint}${entry.by ? ` By #${entry.by}.` : ""} ${entry.tokens ? `${number(entry.tokens)} tokens.` : ""}</p>
      <pre class="entry-full" tabindex="0">${text}</pre>
      <div class="dialog-actions">
        ${entry.by && html`<button type="button" onClick=${() => { onClose(); actions.openReport(entry.by); }}>Open the report of #${entry.by}</button>`}
      </div>
    <//>
  `;
}

/** @param {any} message */
const textOf = (message) =>
  message.parts
    .map((/** @type {any} */ part) => {
      if (part.type === "tool_call") return `${part.name} ${part.arguments ?? ""}`;
      return part.text ?? `[${part.type}]`;
    })
    .join("\n\n");
