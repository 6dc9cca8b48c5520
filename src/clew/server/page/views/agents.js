/** Background tasks of the session, and the agents of all sessions, each with its gauge. */

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { api, ApiError } from "../api.js";
import { compact, dollars, duration, oneLine, percent } from "../format.js";
import { useStore } from "../store.js";
import { Dialog } from "./help.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

const OPEN = new Set(["queued", "running", "waiting_permission"]);
const STATUS = { queued: "queued", running: "running", waiting_permission: "asks", completed: "completed", failed: "failed", cancelled: "cancelled" };

/** @param {{session: OpenSession}} props */
export function Agents({ session }) {
  const live = useStore(session.store, (state) => state.transcript.tasks);
  const [tasks, setTasks] = useState(/** @type {any[]} */ ([]));
  const [roster, setRoster] = useState(/** @type {any[]} */ ([]));
  const [failure, setFailure] = useState("");
  const [log, setLog] = useState(/** @type {any} */ (null));
  const signature = Object.values(live).map((one) => `${one.taskId}:${one.status}`).join();
  useEffect(() => {
    let isOver = false;
    Promise.all([api.tasks(session.id), api.roster()])
      .then(([own, all]) => {
        if (isOver) return;
        setTasks(own);
        setRoster(all.map((/** @type {any} */ one) => one.task).filter((/** @type {any} */ one) => one.session_id !== session.id));
      })
      .catch((error) => {
        if (!(error instanceof ApiError)) throw error;
        if (!isOver) setFailure(error.message);
      });
    return () => { isOver = true; };
  }, [session, signature]);
  const shown = tasks.map((task) => mergeLive(task, live[task.task_id]));
  return html`
    <div class="agents scroller" tabindex="0" role="region" aria-label="Agents">
      <div class="column wide">
        ${failure && html`<p class="notice error" role="alert">${failure}</p>`}
        <h2>This session</h2>
        <${TaskList} tasks=${shown} session=${session} onLog=${setLog} empty="No background tasks. The model starts them with the Agent tool, you with /agents." />
        ${roster.length > 0 && html`<h2>Other sessions</h2><${TaskList} tasks=${roster} session=${null} onLog=${setLog} empty="" />`}
      </div>
      ${log && html`<${Log} session=${session} task=${log} onClose=${() => setLog(null)} />`}
    </div>
  `;
}

/** @param {any} task @param {any} live */
function mergeLive(task, live) {
  if (!live) return task;
  return { ...task, status: live.status, action: live.line || task.action, context: live.context ?? task.context, cost_usd: live.cost || task.cost_usd };
}

/** @param {{tasks: any[], session: OpenSession | null, onLog: (task: any) => void, empty: string}} props */
function TaskList({ tasks, session, onLog, empty }) {
  if (!tasks.length) return html`<p class="hint">${empty}</p>`;
  return html`<ul class="tasks">${tasks.map((task) => html`<${Task} key=${task.task_id} task=${task} session=${session} onLog=${onLog} />`)}</ul>`;
}

/** @param {{task: any, session: OpenSession | null, onLog: (task: any) => void}} props */
function Task({ task, session, onLog }) {
  const { context } = task;
  const status = STATUS[/** @type {"failed"} */ (task.status ?? "queued")];
  const end = task.ended_at ?? Date.now() / 1000;
  return html`
    <li class=${`task ${task.status ?? "queued"}`}>
      <div class="task-head">
        <span class=${`tag status ${task.status ?? "queued"}`}>${status}</span>
        <b>${task.agent || task.kind}</b>
        <span class="task-label">${oneLine(task.label, 90)}</span>
        <span class="hint">${task.started_at ? duration(Math.max(0, end - task.started_at)) : ""}${task.cost_usd ? ` · ${dollars(task.cost_usd)}` : ""}</span>
      </div>
      <p class="task-line">${oneLine(task.question || task.action || task.preview || task.error || task.result || "", 160)}</p>
      <div class="task-foot">
        ${context && html`
          <span class="mini-gauge" role="meter" aria-label=${`Window of ${task.label}`} aria-valuemin="0" aria-valuemax=${context.max_tokens} aria-valuenow=${Math.min(context.used_tokens, context.max_tokens)}>
            <span class="bar"><span class=${context.status} style=${{ width: percent(context.used_tokens, context.max_tokens).replace(" ", "") }}></span></span>
            ${compact(context.used_tokens)} of ${compact(context.max_tokens)}
          </span>
        `}
        ${session && html`<button type="button" class="quiet small" onClick=${() => onLog(task)}>Log</button>`}
        ${session && OPEN.has(task.status ?? "queued") && html`<button type="button" class="quiet small" onClick=${() => session.attempt(() => api.changeTask(session.id, task.task_id, "cancel", { reason: "" }))}>Cancel</button>`}
      </div>
    </li>
  `;
}

/** @param {{session: OpenSession, task: any, onClose: () => void}} props */
function Log({ session, task, onClose }) {
  const [lines, setLines] = useState(/** @type {string[]} */ ([]));
  useEffect(() => {
    api.taskLog(session.id, task.task_id).then((page) => setLines(page.lines ?? [])).catch((error) => setLines([error.message]));
  }, []);
  return html`<${Dialog} title=${task.label} onClose=${onClose} wide><pre class="entry-full" tabindex="0">${lines.join("\n") || "empty"}</pre><//>`;
}
