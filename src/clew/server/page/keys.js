/** Keyboard shortcuts: one table, which the help shows too. */

export const SHORTCUTS = [
  { keys: "i", does: "write a prompt", group: "Conversation" },
  { keys: "Enter", does: "send; Shift+Enter for a new line", group: "Conversation" },
  { keys: "Esc", does: "abort the run, or close what is open", group: "Conversation" },
  { keys: "y", does: "allow the call once", group: "Questions" },
  { keys: "s", does: "allow it for this session", group: "Questions" },
  { keys: "p", does: "allow it in this project", group: "Questions" },
  { keys: "n", does: "deny it", group: "Questions" },
  { keys: "t", does: "go to the timeline; arrow keys move, Enter opens", group: "Context window" },
  { keys: "[ ]", does: "open the loss report before or after", group: "Context window" },
  { keys: "u", does: "undo what the open report shows", group: "Context window" },
  { keys: "k", does: "preview a compaction", group: "Context window" },
  { keys: "1 – 4", does: "chat, journal, agents, simulator", group: "Views" },
  { keys: "/", does: "search sessions", group: "Views" },
  { keys: "o", does: "open a new session", group: "Views" },
  { keys: "f", does: "fork the session: continue in a copy", group: "Views" },
  { keys: "x", does: "delete the session, after a question", group: "Views" },
  { keys: "d", does: "dark, light, or as the system", group: "Views" },
  { keys: "?", does: "this help", group: "Views" },
];

/** Return whether a key goes into a text field. @param {EventTarget | null} target */
export function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/**
 * Call a function for a key that no text field takes. Returns how to stop.
 * @param {Record<string, (event: KeyboardEvent) => void>} handlers by key
 */
export function listenToKeys(handlers) {
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key !== "Escape" && (isTyping(event.target) || document.querySelector("dialog[open]"))) return;
    const handler = handlers[event.key];
    if (!handler) return;
    if (event.key !== "Escape") event.preventDefault();
    handler(event);
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
