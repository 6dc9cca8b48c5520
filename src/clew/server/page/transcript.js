/**
 * Folds the snapshot and the events of a session into what the page shows. Pure.
 *
 * The rules are those of the terminal: each piece of the model's text is in exactly one block, an
 * entry of the journal has the last word about its message, and a client that takes a snapshot
 * and continues with the events after its `seq` shows the same as one that was there all along.
 *
 * @typedef {{seq: number, session_id: string, task_id?: string, at: number, event: any}} Envelope
 * @typedef {{key: string, type: string, entryId: number, at: number, [field: string]: any}} Block
 * @typedef {ReturnType<typeof emptyTranscript>} Transcript
 */

import { INTERRUPTED, blocksOfHistory, blocksOfMessage, findOpenText, imagesOf } from "./history.js";
import { compactionNotice, describeProgress, noteOfResult, preparationNotice } from "./notes.js";
import { applyTask, joinTask } from "./tasks.js";

/** Return the transcript of a session that nothing is known about. */
export function emptyTranscript() {
  return {
    /** @type {Block[]} */ blocks: [],
    /** how many blocks were put before the first one that the page had */ origin: 0,
    /** @type {{key: string, text: string} | null} */ answer: null,
    /** @type {{key: string, text: string, since: number} | null} */ thinking: null,
    /** @type {Record<string, any>} running tool calls by id */ tools: {},
    /** @type {Record<string, any>} background tasks by id */ tasks: {},
    /** @type {any[]} */ requests: [],
    /** @type {any[]} */ todos: [],
    compaction: "",
    /** @type {any} */ retry: null,
    /** @type {number | null} when the run began */ since: null,
    /** the run, if the page saw it begin */ runId: "",
    /** @type {string | null} */ queue: null,
    nextKey: 1,
    seq: 0,
    lastEntry: 0,
    /** the oldest entry of the history that is loaded */ firstEntry: 0,
  };
}

/**
 * Return the transcript of a session at the moment of a snapshot.
 * @param {any} snapshot
 * @param {number} now
 * @returns {Transcript}
 */
export function joinSession(snapshot, now) {
  const made = emptyTranscript();
  made.blocks = blocksOfHistory(snapshot.history);
  made.seq = snapshot.seq;
  made.lastEntry = snapshot.last_entry;
  made.firstEntry = snapshot.history.length ? parseInt(snapshot.history[0].id, 10) : 0;
  made.since = snapshot.executing ? now : null;
  made.queue = snapshot.queue;
  made.todos = snapshot.todos ?? [];
  made.requests = snapshot.permission_requests.map((/** @type {any} */ one) => ({ ...one, taskId: "" }));
  for (const tool of snapshot.active_tools) joinTool(made, tool, now);
  for (const task of snapshot.tasks) joinTask(made, task, now);
  const open = snapshot.executing ? findOpenText(snapshot) : "";
  if (open) made.answer = { key: takeKey(made), text: open };
  return made;
}

/** Put older items of the history before those that are loaded. @param {Transcript} now @param {any[]} items @returns {Transcript} */
export function prependHistory(now, items) {
  const older = items.filter((item) => parseInt(item.id, 10) < now.firstEntry);
  if (!older.length) return { ...now, firstEntry: 1 };
  const blocks = blocksOfHistory(older);
  return {
    ...now,
    blocks: [...blocks, ...now.blocks],
    origin: now.origin + blocks.length,
    firstEntry: parseInt(older[0].id, 10),
  };
}

/**
 * Return the transcript after one more event; the same object for an event that was seen.
 * @param {Transcript} now
 * @param {Envelope} envelope
 * @returns {Transcript}
 */
export function applyEvent(now, envelope) {
  if (envelope.seq <= now.seq) return now;
  const next = { ...now, seq: envelope.seq };
  const { event, at } = envelope;
  const isTask = event.event === "background_task_event" || event.event === "background_job_group_event";
  if (isTask || (envelope.task_id && !HANDLED_OF_TASKS.has(event.event))) {
    applyTask(next, envelope);
    return next;
  }
  HANDLERS[event.event]?.(next, event, at, envelope);
  return next;
}

/** Add a notice of the page itself, such as the reply of a command. @param {Transcript} now @param {object} block @param {number} at @returns {Transcript} */
export function addBlock(now, block, at) {
  const next = { ...now };
  push(next, { ...block }, at);
  return next;
}

/** Questions of subagents are answered like those of the session. */
const HANDLED_OF_TASKS = new Set(["permission_request", "permission_resolved"]);

/** @type {Record<string, (now: Transcript, event: any, at: number, envelope: Envelope) => void>} */
const HANDLERS = {
  user_message(now, event, at) {
    endText(now, at);
    now.since = at;
    now.runId = event.run_id ?? "";
    push(now, { type: "prompt", text: event.text }, at);
  },
  thinking(now, event, at) {
    if (event.active) now.since ??= at;
    else now.since = null;
  },
  text_delta(now, event, at) {
    now.retry = null;
    endThinking(now, at);
    now.answer = now.answer
      ? { ...now.answer, text: now.answer.text + event.text }
      : { key: takeKey(now), text: event.text };
  },
  reasoning_delta(now, event, at) {
    now.retry = null;
    endAnswer(now, at);
    now.thinking = now.thinking
      ? { ...now.thinking, text: now.thinking.text + event.text }
      : { key: takeKey(now), text: event.text, since: at };
  },
  tool_start: startTool,
  server_tool_start: startTool,
  tool_progress(now, event) {
    const tool = now.tools[event.call_id];
    if (tool) now.tools = { ...now.tools, [event.call_id]: { ...tool, line: event.line } };
  },
  tool_end: endTool,
  server_tool_end: endTool,
  permission_request(now, event, _at, envelope) {
    const task = envelope.task_id ? now.tasks[envelope.task_id] : null;
    const asker = event.asker || (envelope.task_id ? (task?.name ?? envelope.task_id) : "");
    now.requests = [...now.requests, { ...event, asker, taskId: envelope.task_id ?? "" }];
  },
  permission_resolved(now, event) {
    now.requests = now.requests.filter((one) => one.request_id !== event.request_id);
  },
  permission_denied(now, event) {
    const tool = now.tools[event.call_id];
    if (tool) now.tools = { ...now.tools, [event.call_id]: { ...tool, remedy: event.remedy } };
  },
  warning(now, event, at) {
    push(now, { type: "notice", level: "warning", text: event.text }, at);
  },
  entry: applyEntry,
  todos(now, event) {
    now.todos = event.items;
  },
  queue(now, event) {
    now.queue = event.prompt;
  },
  model_retry(now, event, at) {
    now.retry = { ...event, until: at + event.delay };
  },
  compaction_start(now, event, at) {
    endText(now, at);
    now.compaction = `compacting (${event.trigger})`;
  },
  compaction_progress(now, event) {
    now.compaction = describeProgress(event) || now.compaction;
  },
  compaction(now, event, at) {
    now.compaction = "";
    const { trigger, summary } = event;
    const tokens = { before: event.report.tokens_before, after: event.report.tokens_after };
    push(now, { type: "compaction", trigger, summary, tokens, report: event.report }, at);
  },
  compaction_failed(now, event, at) {
    now.compaction = "";
    push(now, compactionNotice(event), at);
  },
  background_summary(now, event, at) {
    const notice = preparationNotice(event);
    if (notice) push(now, notice, at);
  },
  results_cleared(now, event, at) {
    const { trigger, report } = event;
    const tokens = { before: report.tokens_before, after: report.tokens_after };
    push(now, { type: "cleared", trigger, count: report.cleared.length, tokens, why: report.why }, at);
  },
  complete: endRun,
  interrupted: endRun,
  error: endRun,
};

/** Names of all events that the transcript knows. */
export const HANDLED_EVENTS = Object.keys(HANDLERS);

/** @param {Transcript} now @returns {string} */
function takeKey(now) {
  now.nextKey += 1;
  return `live-${now.nextKey}`;
}

/** @param {Transcript} now @param {any} block @param {number} at */
function push(now, block, at) {
  now.blocks = [...now.blocks, { key: block.key ?? takeKey(now), entryId: 0, at, ...block }];
}

// Text that is arriving

/** @param {Transcript} now @param {number} at */
function endAnswer(now, at) {
  const open = now.answer;
  now.answer = null;
  if (open && open.text.trim()) push(now, { type: "answer", key: open.key, text: open.text }, at);
}

/** @param {Transcript} now @param {number} at */
function endThinking(now, at) {
  const open = now.thinking;
  now.thinking = null;
  if (!open || !open.text.trim()) return;
  const seconds = Math.max(0, at - open.since);
  push(now, { type: "thinking", key: open.key, text: open.text, seconds }, at);
}

/** @param {Transcript} now @param {number} at */
function endText(now, at) {
  endThinking(now, at);
  endAnswer(now, at);
}

// Tool calls: a block from the start, completed by the result

/** @param {Transcript} now @param {any} event @param {number} at */
function startTool(now, event, at) {
  now.retry = null;
  endText(now, at);
  const tool = {
    callId: event.call_id,
    name: event.name,
    arguments: event.arguments ?? "",
    byUser: event.by_user ?? false,
    byProvider: event.event === "server_tool_start",
    since: at,
    line: "",
  };
  now.tools = { ...now.tools, [event.call_id]: tool };
  push(now, { type: "tool", ...tool, outcome: "running" }, at);
}

/** @param {Transcript} now @param {any} tool @param {number} at */
function joinTool(now, tool, at) {
  const open = { callId: tool.call_id, name: tool.tool_name, arguments: "", firstArg: tool.first_arg, since: at, line: "" };
  now.tools = { ...now.tools, [tool.call_id]: open };
  const known = now.blocks.findIndex((one) => one.type === "tool" && one.callId === tool.call_id);
  if (known < 0) push(now, { type: "tool", ...open, outcome: "running" }, at);
}

/** @param {Transcript} now @param {any} event @param {number} at */
function endTool(now, event, at) {
  const tool = now.tools[event.call_id];
  const { [event.call_id]: _, ...rest } = now.tools;
  now.tools = rest;
  const ended = {
    outcome: event.denied ? "denied" : event.failed ? "error" : "success",
    errorCode: event.error_code ?? "",
    display: event.display ?? event.text ?? "",
    change: event.data?.hunks ? event.data : null,
    remedy: tool?.remedy ?? "",
    seconds: tool ? Math.max(0, at - tool.since) : null,
  };
  const place = findTool(now, event.call_id);
  if (place < 0) {
    push(now, { type: "tool", callId: event.call_id, name: event.name, arguments: "", ...ended }, at);
  } else {
    replaceBlock(now, place, ended);
  }
}

/** @param {Transcript} now @param {string} callId */
function findTool(now, callId) {
  for (let place = now.blocks.length - 1; place >= 0; place -= 1) {
    const block = now.blocks[place];
    if (block.type === "tool" && block.callId === callId) return place;
  }
  return -1;
}

/** @param {Transcript} now @param {number} place @param {object} fields */
function replaceBlock(now, place, fields) {
  const blocks = now.blocks.slice();
  blocks[place] = { ...blocks[place], ...fields };
  now.blocks = blocks;
}

// Entries

/** @param {Transcript} now @param {any} event @param {number} at */
function applyEntry(now, event, at) {
  const { id, body } = event.entry;
  now.lastEntry = Math.max(now.lastEntry, id);
  now.firstEntry ||= id;
  if (body.kind === "message") applyMessage(now, id, body, at);
  else if (MARKS.has(body.kind)) markNewest(now, id);
}

/** Entries whose block comes from an event of its own, before or after the entry. */
const MARKS = new Set(["compaction", "results_cleared"]);

/** @param {Transcript} now @param {number} id */
function markNewest(now, id) {
  const last = now.blocks[now.blocks.length - 1];
  if (last && (last.type === "compaction" || last.type === "cleared") && !last.entryId) {
    replaceBlock(now, now.blocks.length - 1, { entryId: id });
  }
}

/** @param {Transcript} now @param {number} id @param {any} body @param {number} at */
function applyMessage(now, id, body, at) {
  const { message } = body;
  if (message.role === "user") {
    const place = findLastIndex(now.blocks, (one) => one.type === "prompt");
    if (place >= 0 && !now.blocks[place].entryId) {
      replaceBlock(now, place, { entryId: id, images: imagesOf(message) });
    }
  } else if (message.role === "assistant") {
    settleAnswer(now, id, message, at);
  } else {
    settleResults(now, id, body);
  }
}

/**
 * Replace what was streamed by what the journal has. They differ where the page joined in the
 * middle, or where the session changed the text, such as a secret that was redacted.
 * @param {Transcript} now @param {number} id @param {any} message @param {number} at
 */
function settleAnswer(now, id, message, at) {
  endText(now, at);
  let start = now.blocks.length;
  while (start > 0 && isStreamed(now.blocks[start - 1])) start -= 1;
  const streamed = now.blocks.slice(start);
  const made = blocksOfMessage(message, { id, at, shown: "" }).map((block) => {
    const place = streamed.findIndex((one) => one.type === block.type);
    if (place < 0) return block;
    const [same] = streamed.splice(place, 1);
    return { ...block, key: same.key, seconds: same.seconds ?? null };
  });
  now.blocks = [...now.blocks.slice(0, start), ...made];
}

/** @param {Block} block */
const isStreamed = (block) => !block.entryId && (block.type === "answer" || block.type === "thinking");

/** @param {Transcript} now @param {number} id @param {any} body */
function settleResults(now, id, body) {
  for (const part of body.message.parts) {
    const place = part.type === "tool_result" ? findTool(now, part.call_id) : -1;
    if (place < 0) continue;
    const images = part.images ?? [];
    replaceBlock(now, place, { entryId: id, text: body.full_text ?? part.text, images });
  }
}

/** @param {Transcript} now @param {any} event @param {number} at */
function endRun(now, event, at) {
  if (isOfWaitingPrompt(now, event)) {
    push(now, noteOfResult(event), at);
    return;
  }
  endText(now, at);
  now.since = null;
  now.retry = null;
  for (const tool of Object.values(now.tools)) {
    if (!tool.byProvider) continue;
    endTool(now, { call_id: tool.callId, name: tool.name, failed: true, display: "the run ended before the result arrived" }, at);
  }
  const notice = event.event === "interrupted" ? { type: "notice", level: "info", text: INTERRUPTED } : noteOfResult(event);
  const last = now.blocks[now.blocks.length - 1];
  if (notice && !(last?.type === "notice" && last.text === notice.text)) push(now, notice, at);
}

/** Return whether an event is about a prompt that waited while another one runs. @param {Transcript} now @param {any} event */
function isOfWaitingPrompt(now, event) {
  if (event.event !== "error" || now.since === null) return false;
  return now.runId ? event.run_id !== now.runId : event.error_type === "PromptCancelled";
}

/** @template T @param {T[]} items @param {(item: T) => boolean} test */
function findLastIndex(items, test) {
  for (let place = items.length - 1; place >= 0; place -= 1) if (test(items[place])) return place;
  return -1;
}
