/** What the page says about runs and compactions, in Clew's own words. Pure. */

import { dollars, number, plural } from "./format.js";

const STOP_NOTES = {
  length: "the answer was cut off at the model's output limit; ask the model to continue",
  refused: "the model refused to answer",
};

/** @param {string} text @param {string} [level] */
const notice = (text, level = "info") => ({ type: "notice", level, text });

/** Return what to say about a run that ended; null for an answer that is complete. @param {any} event */
export function noteOfResult(event) {
  if (event.event === "error") return notice(event.message, "error");
  const { stop_reason: reason, stop_detail: detail, response } = event.result;
  const note = STOP_NOTES[/** @type {"length"} */ (reason)] ?? "";
  if (note) return notice(detail ? `${note}: ${detail}` : note, "warning");
  return response.trim() ? null : notice("the answer is empty", "warning");
}

/** Return how far a compaction is; empty for a summary in the background. @param {any} event */
export function describeProgress(event) {
  if (event.background) return "";
  const total = event.total ? ` of ${number(event.total)}` : "";
  const unit = event.stage === "writing" ? " characters" : "";
  return `compacting: ${event.stage} ${number(event.done)}${total}${unit}`;
}

/** Return why a compaction failed, and what its attempts cost. @param {any} event */
export function compactionNotice(event) {
  const attempts = (event.attempts ?? []).map(
    (/** @type {any} */ one) => `${one.author}: ${one.outcome} (${number(one.tokens)} tokens, ${dollars(one.cost)})`,
  );
  return notice([`compaction failed: ${event.why}`, ...attempts].join("\n"), "warning");
}

/** Return what happened to a summary in the background; null while it is being written. @param {any} event */
export function preparationNotice(event) {
  const covered = plural(event.messages, "message");
  if (event.stage === "prepared") {
    return notice(`a summary of ${covered} is prepared; the next compaction uses it`);
  }
  if (event.stage !== "discarded") return null; // A warning says why it failed.
  const cost = event.cost ? ` (${dollars(event.cost)})` : "";
  return notice(`the prepared summary of ${covered} is discarded: ${event.why}${cost}`);
}
