/**
 * The background tasks of a session: subagents and processes, as events change them. Pure.
 * @typedef {import("./transcript.js").Transcript} Transcript
 * @typedef {import("./transcript.js").Envelope} Envelope
 */

import { oneLine, plural } from "./format.js";

const ENDS = new Set(["completed", "failed", "cancelled"]);

/** Take a task that runs when the page opens the session. @param {Transcript} now @param {any} event @param {number} at */
export function joinTask(now, event, at) {
  now.tasks = { ...now.tasks, [event.task_id]: makeTask(event, at) };
}

/** Take an event of a task, or about one. @param {Transcript} now @param {Envelope} envelope */
export function applyTask(now, { event, at, task_id: taskId }) {
  if (event.event === "background_task_event") changeTask(now, event, at);
  else if (event.event === "background_job_group_event") endGroup(now, event, at);
  else if (taskId) updateTask(now, taskId, event, at);
}

/** @param {any} event @param {number} at */
function makeTask(event, at) {
  const state = event.state ?? {};
  const label = oneLine(state.label || state.prompt || event.agent || event.task_id, 60);
  const agent = state.agent && state.agent !== "general-purpose" ? `${state.agent}: ` : "";
  return {
    taskId: event.task_id,
    name: `${agent}${label}`,
    kind: state.kind ?? "agent",
    status: state.status ?? "running",
    prompt: state.prompt || event.text || "",
    since: state.started_at ?? at,
    calls: 0,
    line: state.action || state.preview || "",
    context: state.context ?? null,
    cost: state.cost_usd ?? 0,
    model: state.model ?? "",
    inBackground: (state.mode ?? "background") === "background",
    result: state.result ?? "",
    error: state.error ?? "",
  };
}

/** @param {Transcript} now @param {any} event @param {number} at */
function changeTask(now, event, at) {
  const known = now.tasks[event.task_id];
  if (event.stage === "closed") {
    const { [event.task_id]: _, ...rest } = now.tasks;
    now.tasks = rest;
    return;
  }
  const made = makeTask(event, at);
  const status = statusOf(event);
  const task = known ? { ...known, ...pickKnown(made, event.state), status } : { ...made, status };
  now.tasks = { ...now.tasks, [event.task_id]: task };
  if (event.stage === "started" || ENDS.has(event.stage)) {
    const seconds = ENDS.has(event.stage) ? Math.max(0, at - task.since) : null;
    const text = event.stage === "started" ? task.prompt : event.text || task.result || task.error;
    addNote(now, { type: "task", name: task.name, stage: event.stage, text, calls: task.calls, seconds, taskId: event.task_id, kind: task.kind }, at);
  }
}

/** @param {any} event */
function statusOf(event) {
  if (event.state?.status) return event.state.status;
  if (ENDS.has(event.stage)) return event.stage;
  if (event.stage === "waiting_permission") return "waiting_permission";
  return event.stage === "created" ? "queued" : "running";
}

/** @param {any} made @param {any} state */
function pickKnown(made, state) {
  if (!state) return {};
  const { line, context, cost, result, error, model, since } = made;
  return { context, cost, result, error, model, since, ...(line ? { line } : {}) };
}

/** @param {Transcript} now @param {string} taskId @param {any} event @param {number} at */
function updateTask(now, taskId, event, at) {
  const task = now.tasks[taskId];
  const change = (/** @type {object} */ fields) => {
    now.tasks = { ...now.tasks, [taskId]: { ...task, ...fields } };
  };
  if (event.event === "warning") {
    addNote(now, { type: "notice", level: "warning", text: `${task?.name ?? taskId}: ${event.text}` }, at);
  } else if (task && event.event === "tool_start") {
    change({ calls: task.calls + 1, line: `${event.name} ${oneLine(event.arguments ?? "", 80)}`.trim() });
  } else if (task && event.event === "context_update") {
    change({ context: event.state });
  }
}

/** @param {Transcript} now @param {any} event @param {number} at */
function endGroup(now, event, at) {
  if (event.stage !== "completed") return;
  const group = event.state;
  const statuses = (group.results ?? []).map((/** @type {any} */ one) => one.status);
  const counts = [...ENDS]
    .map((status) => [statuses.filter((/** @type {string} */ one) => one === status).length, status])
    .filter(([count]) => count)
    .map(([count, status]) => `${count} ${status}`);
  const label = group.label ? ` ${oneLine(group.label, 40)}` : "";
  const total = plural(group.task_ids.length, "task");
  const said = counts.join(", ") || "nothing has ended";
  addNote(now, { type: "notice", level: "info", text: `the group${label} (${group.group_id}) of ${total} is complete: ${said}` }, at);
}

/** @param {Transcript} now @param {any} block @param {number} at */
function addNote(now, block, at) {
  now.nextKey += 1;
  now.blocks = [...now.blocks, { key: `live-${now.nextKey}`, entryId: 0, at, ...block }];
}
