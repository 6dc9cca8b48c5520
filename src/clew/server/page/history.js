/**
 * The history of a session as blocks, for a page that opens a session or joins it late. Pure.
 * @typedef {import("./transcript.js").Block} Block
 */

export const INTERRUPTED = "interrupted; what has arrived is kept";

const ENDED = new Set(["completed", "failed", "cancelled"]);
const HUNK = /^@@ -(\d+),\d+ \+(\d+),\d+ @@/;
const MARKS = { context: " ", remove: "-", add: "+" };
const TODO_WRITE = "TodoWrite";

/**
 * Return the blocks of history items, in order.
 * @param {any[]} items
 * @returns {Block[]}
 */
export function blocksOfHistory(items) {
  const known = { arguments: new Map(), results: new Map() };
  return items.flatMap((item) => blocksOfItem(item, known));
}

/** @param {any} item @param {{arguments: Map<string, string>, results: Map<string, any>}} known @returns {Block[]} */
function blocksOfItem(item, known) {
  const id = parseInt(item.id, 10);
  const base = { key: item.id, entryId: id, at: item.timestamp };
  if (item.message) {
    for (const part of item.message.parts) {
      if (part.type === "tool_call") known.arguments.set(part.call_id, part.arguments ?? "{}");
      if (part.type === "tool_result") known.results.set(part.call_id, part);
    }
    return blocksOfMessage(item.message, { id, at: item.timestamp, shown: String(item.data?.content ?? "") });
  }
  if (item.type === "tool-end") return blocksOfCall(item.data, known, base);
  const note = noteOf(item.type, item.data);
  return note ? [{ ...base, ...note }] : [];
}

/**
 * Return the blocks of a message; results of tools are shown with their calls.
 * @param {any} message
 * @param {{id: number, at: number, shown: string}} about
 * @returns {Block[]}
 */
export function blocksOfMessage(message, { id, at, shown }) {
  const base = { entryId: id, at };
  if (message.role === "user") {
    const images = imagesOf(message);
    if (!shown.trim() && !images.length) return [];
    return [{ ...base, key: `${id}`, type: "prompt", text: shown, images }];
  }
  if (message.role !== "assistant") return [];
  /** @type {Block[]} */
  const blocks = [];
  message.parts.forEach((/** @type {any} */ part, /** @type {number} */ number) => {
    const key = `${id}.${number}`;
    if (part.type === "reasoning" && part.text?.trim()) {
      blocks.push({ ...base, key, type: "thinking", text: part.text, seconds: null });
    } else if (part.type === "text" && part.text.trim()) {
      const last = blocks[blocks.length - 1];
      if (last?.type === "answer" && last.split) last.text += part.text;
      else blocks.push({ ...base, key, type: "answer", text: part.text });
      blocks[blocks.length - 1].split = Boolean(part.extra);
    } else if (part.type === "image") {
      blocks.push({ ...base, key, type: "images", images: [part] });
    }
  });
  if (message.interrupted) {
    blocks.push({ ...base, key: `${id}.end`, type: "notice", level: "info", text: INTERRUPTED });
  }
  return blocks;
}

/** Return the images of a message. @param {any} message */
export const imagesOf = (message) => message.parts.filter((/** @type {any} */ part) => part.type === "image");

/**
 * Return what the model has written since the last message of the history.
 * @param {any} snapshot
 */
export function findOpenText(snapshot) {
  const messages = snapshot.history.map((/** @type {any} */ item) => item.message).filter(Boolean);
  let start = messages.length;
  while (start > 0 && messages[start - 1].role !== "user") start -= 1;
  let rest = snapshot.streaming_text;
  for (const message of messages.slice(start)) {
    if (message.role !== "assistant") continue;
    for (const part of message.parts) {
      if (part.type !== "text" || !part.text) continue;
      // A long history begins in the middle of the run.
      const place = rest.indexOf(part.text);
      if (place >= 0) rest = rest.slice(place + part.text.length);
      rest = rest.replace(/^\n+/, "");
    }
  }
  return rest;
}

/** @param {any} data @param {{arguments: Map<string, string>, results: Map<string, any>}} known @param {any} base @returns {Block[]} */
function blocksOfCall(data, known, base) {
  if (data.tool_name === TODO_WRITE && data.result === "success") return [];
  const result = known.results.get(data.call_id);
  return [
    {
      ...base,
      type: "tool",
      callId: data.call_id ?? "",
      name: data.tool_name,
      arguments: known.arguments.get(data.call_id) ?? "",
      firstArg: data.first_arg ?? "",
      outcome: data.result ?? "success",
      errorCode: data.error_code ?? "",
      display: data.tool_result_data ?? "",
      text: result?.text ?? "",
      images: result?.images ?? [],
      change: changeOf(data),
      seconds: null,
    },
  ];
}

/** Return the diff of a call in the form of an event's data. @param {any} data */
function changeOf(data) {
  /** @type {{old_start: number, new_start: number, lines: string[]}[]} */
  const hunks = [];
  for (const line of data.diff_lines ?? []) {
    const found = line.type === "hunk" ? HUNK.exec(line.text) : null;
    if (found) hunks.push({ old_start: Number(found[1]), new_start: Number(found[2]), lines: [] });
    else if (line.type !== "hunk" && hunks.length) {
      hunks[hunks.length - 1].lines.push(MARKS[/** @type {"add"} */ (line.type)] + line.text);
    }
  }
  return hunks.length ? { path: data.diff_file ?? "", hunks } : null;
}

/** @param {string} kind @param {any} data */
function noteOf(kind, data) {
  const notice = (/** @type {string} */ text, level = "info") => ({ type: "notice", level, text });
  switch (kind) {
    case "compaction":
      return { type: "compaction", trigger: data.trigger, summary: data.summary ?? "", tokens: null };
    case "results_cleared":
      return { type: "cleared", trigger: data.trigger, count: data.cleared?.length ?? 0, tokens: data.tokens ?? null, why: data.why ?? "" };
    case "clear":
      return notice("the conversation was cleared");
    case "undo":
      return notice(`#${data.target} was undone`);
    case "rewind":
      return notice(`rewound to before #${data.before}`);
    case "background-task":
      if (!ENDED.has(data.status) || data.closed) return null;
      return notice(`background task ${data.label} (${data.task_id}): ${data.status}`);
    default:
      return null;
  }
}
