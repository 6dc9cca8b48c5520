/**
 * The address of what is shown: `#/s/SESSION/journal`. It can be kept as a bookmark.
 * @typedef {{session: string, tab: string}} Route
 */

import { createStore } from "./store.js";

export const TABS = ["chat", "journal", "agents", "simulator"];

/** Read an address. @param {string} hash @returns {Route} */
export function parseRoute(hash) {
  const [, kind, session = "", tab = "chat"] = hash.split("/");
  if (kind !== "s") return { session: "", tab: "chat" };
  return { session: decodeURIComponent(session), tab: TABS.includes(tab) ? tab : "chat" };
}

/** Write an address. @param {Route} route */
export const formatRoute = ({ session, tab }) =>
  session ? `#/s/${encodeURIComponent(session)}${tab === "chat" ? "" : `/${tab}`}` : "#/";

export const route = createStore(parseRoute(location.hash));
window.addEventListener("hashchange", () => route.set(parseRoute(location.hash)));

/** Show another session, another tab, or both. @param {Partial<Route>} change */
export function navigate(change) {
  const next = { ...route.get(), ...(change.session !== undefined ? { tab: "chat" } : {}), ...change };
  if (formatRoute(next) !== location.hash) location.hash = formatRoute(next);
  route.set(next);
}
