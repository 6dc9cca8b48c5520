/** One entry of the journal in a list, with where it stands and the button that pins it. */

import { html } from "../vendor/htm-preact.js";
import { api } from "../api.js";
import { compact } from "../format.js";
import { Icon } from "./icons.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

export const STANDINGS = {
  in_view: { label: "in view", hint: "The model reads it word for word." },
  cleared: { label: "shortened", hint: "The model reads a marker or an excerpt in its place." },
  summarised: { label: "summarised", hint: "It left the window; a summary covers it." },
  removed: { label: "removed", hint: "It left the window without a summary." },
  undone: { label: "undone", hint: "An undo or a rewind took it back." },
  record: { label: "record", hint: "It is not a message: a setting, a pin, a note, a cost." },
};

/** @param {{session: OpenSession, entry: any, actions: any, onOpen?: (entry: any) => void}} props */
export function EntryRow({ session, entry, actions, onOpen }) {
  const standing = STANDINGS[/** @type {"removed"} */ (entry.standing)] ?? STANDINGS.record;
  const canPin = entry.kind === "message" && (entry.pinned || entry.standing === "in_view" || entry.standing === "cleared");
  const hint = `${standing.hint}${entry.by ? ` By #${entry.by}.` : ""}`;
  const pin = async () => {
    await session.attempt(() => api.pin(session.id, entry.id, !entry.pinned).then(() => true));
    session.reloadTimeline();
  };
  return html`
    <li class=${`entry ${entry.standing} ${entry.kind}`} data-id=${entry.id}>
      <button type="button" class="entry-main" onClick=${() => (onOpen ? onOpen(entry) : actions.jumpTo(entry.id))} title=${onOpen ? "Show the entry" : "Show it in the chat"}>
        <span class="entry-id">#${entry.id}</span>
        <span class="entry-author">${entry.author}</span>
        <span class="entry-text">${entry.text}</span>
      </button>
      <span class="entry-tokens" title=${entry.tokens_in_view === entry.tokens ? "tokens" : `tokens; now ${entry.tokens_in_view ?? 0}`}>${entry.tokens ? compact(entry.tokens) : ""}</span>
      <span class=${`standing ${entry.standing}`} title=${hint}>${standing.label}${entry.by ? html` <a href="#" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); actions.openReport(entry.by); }}>#${entry.by}</a>` : ""}</span>
      ${canPin
        ? html`<button type="button" class=${`ghost small pin ${entry.pinned ? "pinned" : ""}`} aria-pressed=${Boolean(entry.pinned)} aria-label=${`Pin #${entry.id}`} title=${entry.pinned ? "Pinned: every compaction keeps it. Click to unpin." : "Pin: every compaction keeps it"} onClick=${pin}><${Icon} name="pin" /></button>`
        : html`<span class="pin"></span>`}
    </li>
  `;
}
