/** The todo list that the model keeps, while something on it is open. */

import { html } from "../vendor/htm-preact.js";
import { Icon } from "./icons.js";

const SIGNS = { pending: "○", in_progress: "◐", cancelled: "–" };

/** @param {{items: any[], isRunning: boolean}} props */
export function Todos({ items, isRunning }) {
  const open = items.filter((one) => one.status === "pending" || one.status === "in_progress" || !one.status);
  if (!open.length) return null;
  const current = items.find((one) => one.status === "in_progress");
  const done = items.filter((one) => one.status === "completed").length;
  return html`
    <details class="todos">
      <summary><b>${done}/${items.length}</b> ${current ? (isRunning && current.active_form) || current.content : open[0].content}</summary>
      <ul>
        ${items.map((one) => html`
          <li class=${one.status ?? "pending"}>
            <span class="sign" aria-hidden="true">${one.status === "completed" ? html`<${Icon} name="check" />` : SIGNS[/** @type {"pending"} */ (one.status ?? "pending")]}</span>
            <span class="sr-only">${(one.status ?? "pending").replace("_", " ")}:</span> ${one.content}
          </li>
        `)}
      </ul>
    </details>
  `;
}
