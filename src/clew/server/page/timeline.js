/**
 * The timeline of the context window as the chart draws it. Pure.
 *
 * @typedef {{entry_id: number, at: number, model: string, window: number, tokens: number,
 *   basis: string, breakdown: Record<string, number>, usage?: any, cost?: number | null}} Point
 * @typedef {{entry_id: number, at: number, kind: string, tokens_before: number, tokens_after: number,
 *   trigger?: string, target?: number, model?: string, window?: number}} Mark
 * @typedef {{points: Point[], marks: Mark[], last: number, hasMore: boolean, undoable: number[],
 *   thresholds: {warn: number, compact: number | null, block: number} | null}} Timeline
 */

/** The kinds of tokens, in the order in which they are stacked: what changes least is at the bottom. */
export const KINDS = [
  { key: "system", label: "System" },
  { key: "tools", label: "Tools" },
  { key: "summary", label: "Summary" },
  { key: "user", label: "User" },
  { key: "assistant", label: "Assistant" },
  { key: "reasoning", label: "Reasoning" },
  { key: "tool_results", label: "Tool results" },
];

/** @type {Timeline} */
export const EMPTY_TIMELINE = { points: [], marks: [], last: 0, hasMore: false, undoable: [], thresholds: null };

/** Add a page of the timeline that the server sent. @param {Timeline} now @param {any} page @returns {Timeline} */
export function addToTimeline(now, page) {
  const isNew = (/** @type {{entry_id: number}} */ one) => one.entry_id > now.last;
  return {
    points: [...now.points, ...page.points.filter(isNew)],
    marks: [...now.marks, ...page.marks.filter(isNew)],
    last: Math.max(now.last, page.last_entry),
    hasMore: page.has_more,
    undoable: page.undoable,
    thresholds: page.thresholds,
  };
}

const TOUCHING = new Set(["setup", "compaction", "results_cleared", "reasoning_dropped", "clear", "undo", "rewind"]);

/** Return whether an event changes the timeline. @param {any} event */
export function touchesTimeline(event) {
  if (event.event !== "entry") return false;
  const { body } = event.entry;
  return TOUCHING.has(body.kind) || (body.kind === "message" && body.message.role === "assistant");
}

/** Return whether an event changes the window without a model call, after which no new reading comes. @param {any} event */
export const touchesWindow = (event) => event.event === "entry" && TOUCHING.has(event.entry.body.kind);

/**
 * Return the columns of the chart: one for each call, or one for several where there are more
 * calls than the chart has room for. A column of several shows the fullest, so that no peak is lost.
 * @param {Point[]} points
 * @param {number} width in pixels
 * @returns {{columns: {x: number, width: number, point: Point, first: number, count: number}[], step: number}}
 */
export function makeColumns(points, width) {
  if (!points.length || width <= 0) return { columns: [], step: 0 };
  const MIN_STEP = 2;
  const step = Math.min(28, width / points.length);
  if (step >= MIN_STEP) {
    const gap = step > 8 ? 2 : step > 4 ? 1 : 0;
    const columns = points.map((point, first) => ({ x: first * step, width: step - gap, point, first, count: 1 }));
    return { columns, step };
  }
  const slots = Math.max(1, Math.floor(width / MIN_STEP));
  const columns = [];
  for (let slot = 0; slot < slots; slot += 1) {
    const first = Math.floor((slot * points.length) / slots);
    const end = Math.floor(((slot + 1) * points.length) / slots);
    let point = points[first];
    for (let at = first + 1; at < end; at += 1) if (points[at].tokens > point.tokens) point = points[at];
    columns.push({ x: (slot * width) / slots, width: width / slots, point, first, count: end - first });
  }
  return { columns, step: width / points.length };
}

/**
 * Return where a mark stands: between the call before it and the call after it.
 * @param {Point[]} points @param {number} step @param {number} entryId
 */
export function placeOfMark(points, step, entryId) {
  return countBefore(points, entryId) * step;
}

/** Return how many points come before an entry. @param {Point[]} points @param {number} entryId */
export function countBefore(points, entryId) {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].entry_id < entryId) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Return round numbers from 0 to a limit, for the lines of a scale. @param {number} limit @param {number} wanted */
export function makeTicks(limit, wanted = 4) {
  if (limit <= 0) return [0];
  const rough = limit / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  const ticks = [];
  for (let tick = 0; tick <= limit * 1.0001; tick += step) ticks.push(Math.round(tick));
  return ticks;
}

/** Return the largest number that the chart must show. @param {Timeline} timeline @param {boolean} full show the whole window */
export function scaleTop(timeline, full) {
  let peak = 0;
  let window = 0;
  for (const point of timeline.points) {
    peak = Math.max(peak, point.tokens);
    window = Math.max(window, point.window);
  }
  for (const mark of timeline.marks) peak = Math.max(peak, mark.tokens_before, mark.tokens_after);
  return Math.max(1, full ? Math.max(peak, window) * 1.06 : peak * 1.2);
}

/** Return whether the chart shows the whole window unless the user chose: if much of it is used. @param {Timeline} timeline */
export function prefersFull(timeline) {
  const window = Math.max(0, ...timeline.points.slice(-1).map((one) => one.window));
  return scaleTop(timeline, false) / 1.2 > window * 0.3;
}

const MARK_NAMES = {
  compaction: "Compaction",
  results_cleared: "Results cleared",
  reasoning_dropped: "Reasoning dropped",
  clear: "Conversation cleared",
  undo: "Undo",
  rewind: "Rewind",
  model: "Model changed",
};

/** Return the name of a mark. @param {Mark} mark */
export const nameOfMark = (mark) => MARK_NAMES[/** @type {"undo"} */ (mark.kind)] ?? mark.kind;

/** Return the ids of the marks that a later undo reverted. @param {Mark[]} marks */
export function undoneMarks(marks) {
  const undone = new Set();
  for (const mark of marks) {
    if (mark.kind !== "undo" || mark.target === undefined) continue;
    undone.add(mark.target);
  }
  // An undo that was undone itself reverts nothing.
  for (const mark of [...marks].reverse()) {
    if (mark.kind === "undo" && undone.has(mark.entry_id) && mark.target !== undefined) undone.delete(mark.target);
  }
  return undone;
}
