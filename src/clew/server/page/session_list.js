/** The list of sessions, as the server last sent it: for the sidebar, and for titles. */

import { createStore } from "./store.js";

/** The newest sessions, and where the list continues. */
export const sessionList = createStore({ sessions: /** @type {any[]} */ ([]), next: /** @type {string | null} */ (null) });

/** Grows when the list may have changed: a run began or ended, a session has another name. */
export const listRevision = createStore(0);

const LISTED = new Set(["user_message", "complete", "interrupted", "error", "session_update", "permission_request", "permission_resolved"]);

/** Return whether an event changes the list. @param {any} event */
export const touchesList = (event) => LISTED.has(event.event);

/** Return the title of a session in the list; empty if it is not there. @param {string} id */
export function listedTitle(id) {
  const found = sessionList.get().sessions.find((one) => one.id === id);
  return found ? found.name || found.title || "" : "";
}
