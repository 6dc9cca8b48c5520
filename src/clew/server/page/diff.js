/** Diffs as numbered rows. Pure. */

const NO_NEWLINE = "\n\\ No newline at end of file";

/**
 * @typedef {{kind: "add" | "remove" | "context" | "hunk", number: number | null, text: string}} Row
 * @param {{path?: string, hunks: {old_start: number, new_start: number, lines: string[]}[]}} change
 * @returns {{rows: Row[], added: number, removed: number}}
 */
export function makeRows(change) {
  /** @type {Row[]} */
  const rows = [];
  let added = 0;
  let removed = 0;
  change.hunks.forEach((hunk, place) => {
    if (place) rows.push({ kind: "hunk", number: null, text: "⋯" });
    let before = hunk.old_start;
    let after = hunk.new_start;
    for (const line of hunk.lines) {
      const text = line.slice(1).replace(NO_NEWLINE, "");
      if (line[0] === "+") {
        rows.push({ kind: "add", number: after++, text });
        added += 1;
      } else if (line[0] === "-") {
        rows.push({ kind: "remove", number: before++, text });
        removed += 1;
      } else {
        rows.push({ kind: "context", number: after++, text });
        before += 1;
      }
    }
  });
  return { rows, added, removed };
}
