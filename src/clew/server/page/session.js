/**
 * The session that the page shows: its snapshot, its events and the timeline of its window.
 *
 * One object per open session; `close` ends its stream. Views read `store` and call the actions.
 */

import { api, ApiError } from "./api.js";
import { followEvents } from "./events.js";
import { listRevision, touchesList } from "./session_list.js";
import { createStore } from "./store.js";
import { EMPTY_TIMELINE, addToTimeline, touchesTimeline, touchesWindow } from "./timeline.js";
import { addBlock, applyEvent, emptyTranscript, joinSession, prependHistory } from "./transcript.js";

const PAGE = 150;
const LARGEST = 1_000;
const READ_DELAY = 100; // A session that is being closed sends its last entries, and then its end.
const now = () => Date.now() / 1000;

/** @typedef {ReturnType<typeof openSession>} OpenSession */

/** Return what is known about a session before its snapshot arrives. @param {string} id */
function emptyState(id) {
  return {
    id,
    name: "",
    model: "",
    mode: "default",
    cwd: "",
    effort: "",
    /** @type {any} */ context: null,
    transcript: emptyTranscript(),
    timeline: EMPTY_TIMELINE,
    /** @type {"connecting" | "live" | "offline" | "closed"} */ connection: "connecting",
    /** @type {ApiError | null} */ failure: null,
    isLoaded: false,
    isLoadingOlder: false,
    /** grows when an entry may stand elsewhere than before */ revision: 0,
  };
}

/** @param {{id: string}} item */
const entryOf = (item) => parseInt(item.id, 10);

/** Read the history between two entries. @param {string} id @param {number} after @param {number} before */
async function readHistory(id, after, before) {
  const found = [];
  for (let last = after; last < before - 1; ) {
    const page = await api.history(id, last, LARGEST);
    if (page.length < LARGEST) return [...found, ...page];
    // The last entry may have more items than fit: they come with the next page.
    last = entryOf(page[page.length - 1]) - 1;
    found.push(...page.filter((/** @type {any} */ item) => entryOf(item) <= last));
  }
  return found;
}

/**
 * Open a session.
 * @param {string} id
 */
export function openSession(id) {
  const store = createStore(emptyState(id));
  /** @param {Partial<ReturnType<typeof emptyState>>} fields */
  const change = (fields) => store.update((state) => ({ ...state, ...fields }));
  let isClosed = false;
  /** @type {{stop: () => void} | null} */
  let stream = null;

  async function load() {
    const snapshot = await api.snapshot(id);
    if (isClosed) return;
    const { name, model, mode, cwd, context, effort } = snapshot;
    const transcript = joinSession(snapshot, now());
    change({ name, model, mode, cwd, context, effort, transcript, isLoaded: true, failure: null });
    await loadTimeline();
  }

  /** Return whether reading more would open a session that was closed. */
  const isOver = () => isClosed || store.get().connection === "closed";

  let isReading = false;
  let isStale = false;
  /** Read the points that are new; calls while one is under way are answered together. */
  async function loadTimeline() {
    if (isReading) {
      isStale = true;
      return;
    }
    isReading = true;
    try {
      do {
        isStale = false;
        if (isOver()) return;
        const page = await api.timeline(id, store.get().timeline.last);
        if (isClosed) return;
        store.update((state) => ({ ...state, timeline: addToTimeline(state.timeline, page), revision: state.revision + 1 }));
      } while (isStale || store.get().timeline.hasMore);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // The chart keeps what it has; the connection state says what is wrong.
    } finally {
      isReading = false;
    }
  }

  async function loadContext() {
    if (isOver()) return;
    const context = await attempt(() => api.context(id));
    if (context && !isClosed) change({ context });
  }

  /** @param {any[]} envelopes */
  function receive(envelopes) {
    let mustRead = false;
    let isListed = false;
    let isChanged = false;
    store.update((state) => {
      let { transcript, context } = state;
      const changed = {};
      for (const envelope of envelopes) {
        const { event } = envelope;
        if (envelope.seq <= transcript.seq) continue;
        transcript = applyEvent(transcript, envelope);
        if (envelope.task_id) continue;
        if (event.event === "context_update") context = event.state;
        if (event.event === "session_update") {
          Object.assign(changed, { name: event.name, model: event.model, mode: event.mode });
        }
        mustRead ||= touchesTimeline(event);
        isListed ||= touchesList(event);
        isChanged ||= touchesWindow(event);
      }
      return { ...state, ...changed, transcript, context };
    });
    if (mustRead) setTimeout(loadTimeline, READ_DELAY);
    if (isChanged) setTimeout(loadContext, READ_DELAY);
    if (isListed) listRevision.update((count) => count + 1);
  }

  /** Take a snapshot and follow the events after it; this opens a session that is closed. */
  async function connect() {
    change({ connection: "connecting" });
    try {
      await load();
    } catch (error) {
      const failure = /** @type {ApiError} */ (error);
      change({ connection: store.get().isLoaded ? "closed" : "offline", failure });
      throw error;
    }
    if (isClosed) return;
    stream = followEvents(id, {
      after: () => store.get().transcript.seq,
      onEnvelopes: receive,
      onState: (connection, failure) => change({ connection, failure: failure ?? null }),
      onExpired: load,
      onEnd: () => change({ connection: "closed", failure: null }),
    });
  }
  connect().catch((error) => {
    if (!(error instanceof ApiError)) throw error;
  });

  /** Run an action, which opens a closed session again; a failure becomes a notice in the transcript. @template T @param {() => Promise<T>} action @returns {Promise<T | null>} */
  async function attempt(action) {
    try {
      if (store.get().connection === "closed") await connect();
      return await action();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      say(error.message, "error");
      return null;
    }
  }

  /** @param {string} text @param {string} [level] @param {string} [type] */
  function say(text, level = "info", type = "notice") {
    store.update((state) => ({ ...state, transcript: addBlock(state.transcript, { type, level, text }, now()) }));
  }

  return {
    id,
    store,
    attempt,
    say,
    reloadTimeline: loadTimeline,
    /** Open the session again if it was closed. */
    reopen: () => attempt(async () => {}),
    /**
     * Load the page of the history before the oldest block, or all back to an entry.
     * @param {number} [entry]
     */
    async loadOlder(entry = Infinity) {
      const { transcript, isLoadingOlder, isLoaded } = store.get();
      if (!isLoaded || isLoadingOlder || transcript.firstEntry <= 1) return false;
      change({ isLoadingOlder: true });
      const after = Math.max(0, Math.min(transcript.firstEntry - PAGE, entry - PAGE / 3) - 1);
      const items = await attempt(() => readHistory(id, Math.floor(after), transcript.firstEntry));
      store.update((state) => ({
        ...state,
        isLoadingOlder: false,
        transcript: items ? prependHistory(state.transcript, items) : state.transcript,
      }));
      return items !== null;
    },
    close() {
      isClosed = true;
      stream?.stop();
    },
  };
}
