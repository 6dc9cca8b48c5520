/** Completion of what is typed: `/command` at the beginning, `@path` anywhere. Pure. */

const SHOWN = 8;

/**
 * Return what can be completed at a place.
 * @param {string} text
 * @param {number} caret
 * @returns {{kind: "command" | "path", start: number, end: number, fragment: string} | null}
 */
export function completionAt(text, caret) {
  const before = text.slice(0, caret);
  const command = /^\/([\w:-]*)$/.exec(before);
  if (command) return { kind: "command", start: 1, end: caret, fragment: command[1] };
  const path = /(?:^|\s)@("[^"\n]*|[^\s"@]*)$/.exec(before);
  if (!path) return null;
  return { kind: "path", start: caret - path[1].length, end: caret, fragment: path[1] };
}

/** Put a completion into the text. @param {string} text @param {{start: number, end: number, kind: string}} place @param {{value: string, isFolder?: boolean}} item */
export function insertCompletion(text, place, item) {
  const after = item.isFolder ? "" : " ";
  return text.slice(0, place.start) + item.value + after + text.slice(place.end).replace(/^ /, "");
}

/**
 * Return the commands that fit what was typed, the best first.
 * @param {{name: string, description: string, argument_hint?: string}[]} commands
 * @param {string} fragment
 */
export function rankCommands(commands, fragment) {
  const wanted = fragment.toLowerCase();
  const score = (/** @type {string} */ name) => (name.startsWith(wanted) ? 0 : name.includes(wanted) ? 1 : 2);
  return commands
    .map((one) => ({ one, rank: score(one.name.toLowerCase()) }))
    .filter(({ rank }) => rank < 2)
    .sort((a, b) => a.rank - b.rank || a.one.name.localeCompare(b.one.name))
    .slice(0, SHOWN)
    .map(({ one }) => ({ value: one.name, sign: "/", detail: [one.argument_hint, one.description].filter(Boolean).join(" · ") }));
}
