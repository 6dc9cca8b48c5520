/** A tool call: what it was asked, what it changed, what it answered. */

import { html, useState } from "../vendor/htm-preact.js";
import { makeRows } from "../diff.js";
import { duration, number, oneLine, plural, shortPath } from "../format.js";
import { Images } from "./blocks.js";
import { Code, CopyButton } from "./code.js";
import { Icon } from "./icons.js";

const PREVIEW_ROWS = 14;
const PREVIEW_CHARACTERS = 6_000;
const OUTCOMES = { success: "succeeded", error: "failed", denied: "was denied", running: "is running" };

/** Return the arguments of a call; empty if they cannot be read. @param {string} text @returns {Record<string, any>} */
export function readArguments(text) {
  try {
    const value = JSON.parse(text || "{}");
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : {};
  } catch {
    return {};
  }
}

/** Return the argument that says most about a call. @param {Record<string, any>} values */
export function mainArgument(values) {
  for (const name of ["command", "file_path", "path", "pattern", "query", "url", "description", "prompt"]) {
    if (typeof values[name] === "string") return values[name];
  }
  const first = Object.values(values).find((one) => typeof one === "string");
  return first ?? (Object.keys(values).length ? JSON.stringify(values) : "");
}

/** @param {{block: any, tool?: any}} props */
export function ToolCall({ block, tool }) {
  const values = readArguments(block.arguments);
  const what = mainArgument(values) || block.firstArg || "";
  const shown = /path/.test(Object.keys(values)[0] ?? "") ? shortPath(what, 3) : oneLine(what, 140);
  const diff = block.change ? makeRows(block.change) : null;
  const isOpen = Boolean(diff) || block.outcome === "error" || Boolean(block.byUser);
  return html`
    <details class=${`block tool ${block.outcome}`} data-entry=${block.entryId} open=${isOpen}>
      <summary>
        <span class="outcome"><${OutcomeIcon} outcome=${block.outcome} /></span>
        <span class="sr-only">Tool call that ${OUTCOMES[/** @type {"error"} */ (block.outcome)] ?? block.outcome}:</span>
        <span class="tool-name">${block.byUser ? "!" : block.name}</span>
        <span class="tool-what" title=${oneLine(what, 400)}>${shown}</span>
        ${diff && html`<span class="counts"><span class="added">+${diff.added}</span> <span class="removed">−${diff.removed}</span></span>`}
        ${block.seconds >= 0.5 && html`<span class="hint">${duration(block.seconds)}</span>`}
      </summary>
      <div class="tool-body">
        ${diff ? html`<${Diff} diff=${diff} path=${block.change.path} />` : !block.byUser && html`<${Arguments} values=${values} raw=${block.arguments} />`}
        ${block.outcome === "running" && tool?.line && html`<pre class="progress" aria-live="off">${tool.line}</pre>`}
        ${(!diff || block.outcome !== "success") && html`<${Output} text=${block.display || block.text || ""} failed=${block.outcome !== "success" && block.outcome !== "running"} />`}
        ${block.remedy && html`<p class="hint">${block.remedy}</p>`}
        <${Images} images=${block.images} />
      </div>
    </details>
  `;
}

/** @param {{outcome: string}} props */
function OutcomeIcon({ outcome }) {
  if (outcome === "running") return html`<span class="spinner" aria-hidden="true"></span>`;
  return html`<${Icon} name=${outcome === "success" ? "check" : "cross"} />`;
}

/** @param {{values: Record<string, any>, raw: string}} props */
function Arguments({ values, raw }) {
  const names = Object.keys(values);
  if (!names.length) return raw && raw !== "{}" ? html`<${Code} text=${raw} />` : null;
  if (typeof values.command === "string") return html`<${Code} text=${values.command} language="bash" />`;
  return html`
    <dl class="arguments">
      ${names.map((name) => html`<dt>${name}</dt><dd>${typeof values[name] === "string" ? values[name].slice(0, PREVIEW_CHARACTERS) : JSON.stringify(values[name])}</dd>`)}
    </dl>
  `;
}

/** @param {{text: string, failed: boolean}} props */
export function Output({ text, failed }) {
  const [isWhole, setWhole] = useState(false);
  if (!text.trim()) return null;
  const lines = text.trimEnd().split("\n");
  const isLong = lines.length > PREVIEW_ROWS + 4 || text.length > PREVIEW_CHARACTERS;
  const shown = isWhole || !isLong ? text.trimEnd() : lines.slice(0, PREVIEW_ROWS).join("\n").slice(0, PREVIEW_CHARACTERS);
  return html`
    <div class=${`output ${failed ? "failed" : ""}`}>
      <pre tabindex="0">${shown}</pre>
      <${CopyButton} text=${text} label="Copy output" />
      ${isLong && html`<button type="button" class="link" onClick=${() => setWhole(!isWhole)}>${isWhole ? "Show less" : `Show all ${plural(lines.length, "line")}`}</button>`}
    </div>
  `;
}

/** @param {{diff: ReturnType<typeof makeRows>, path: string}} props */
export function Diff({ diff, path }) {
  const [isWhole, setWhole] = useState(false);
  const rows = isWhole ? diff.rows : diff.rows.slice(0, PREVIEW_ROWS * 2);
  return html`
    <div class="diff">
      <div class="code-head"><span>${path}</span></div>
      <div class="diff-rows" tabindex="0" role="group" aria-label=${`Changes in ${path}`}>
        <table>
          <tbody>
            ${rows.map((row) => html`
              <tr class=${row.kind}>
                <td class="line">${row.number ?? ""}</td>
                <td class="sign">${row.kind === "add" ? "+" : row.kind === "remove" ? "−" : ""}</td>
                <td class="text">${row.text}</td>
              </tr>
            `)}
          </tbody>
        </table>
      </div>
      ${diff.rows.length > PREVIEW_ROWS * 2 && html`<button type="button" class="link" onClick=${() => setWhole(!isWhole)}>${isWhole ? "Show less" : `Show all ${number(diff.rows.length)} lines`}</button>`}
    </div>
  `;
}
