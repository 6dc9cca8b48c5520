/** What a compaction would do now, before it is done. */

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { api, ApiError } from "../api.js";
import { number, percent } from "../format.js";
import { Dialog } from "./help.js";
import { Markdown } from "./markdown.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

/** @param {{session: OpenSession, actions: any, onClose: () => void}} props */
export function Preview({ session, onClose }) {
  const [preview, setPreview] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState("");
  const [instructions, setInstructions] = useState("");
  const [isWorking, setWorking] = useState(false);
  useEffect(() => {
    let isOver = false;
    api.preview(session.id, {})
      .then((found) => !isOver && setPreview(found))
      .catch((error) => {
        if (!(error instanceof ApiError)) throw error;
        if (!isOver) setFailure(error.message);
      });
    return () => { isOver = true; };
  }, []);
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setWorking(true);
    try {
      await api.compact(session.id, instructions.trim() ? { instructions: instructions.trim() } : {});
      session.reloadTimeline();
      onClose();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFailure(error.message);
      setWorking(false);
    }
  };
  return html`
    <${Dialog} title="Compact the window" onClose=${onClose} wide>
      <form class="preview" onSubmit=${run}>
        ${!preview && !failure && html`<p class="hint" role="status">Computing what would go…</p>`}
        ${failure && html`<p class="notice error" role="alert">${failure}</p>`}
        ${preview && html`<${Outlook} preview=${preview} />`}
        <label>What the summary must keep (optional)
          <textarea rows="2" value=${instructions} placeholder="Keep the names of all failing tests" onInput=${(/** @type {any} */ event) => setInstructions(event.target.value)}></textarea>
        </label>
        <div class="dialog-actions">
          <span class="hint">Nothing is deleted. An undo brings everything back.</span>
          <button type="submit" class="primary" disabled=${isWorking}>${isWorking ? "Compacting…" : "Compact now"}</button>
        </div>
      </form>
    <//>
  `;
}

/** @param {{preview: any}} props */
function Outlook({ preview }) {
  const report = preview.report ?? preview;
  const before = report.tokens_before ?? 0;
  const after = report.tokens_after ?? 0;
  const counts = [
    ["summarised", (report.summarised ?? []).length],
    ["removed", (report.archived ?? []).length],
    ["shortened", (report.cleared ?? []).length],
    ["kept", (report.kept ?? []).length],
  ];
  return html`
    <div class="outlook">
      <div class="outlook-tokens"><b>${number(before)}</b><span>→</span><b>${number(after)}</b> tokens <span class="hint">${before ? `−${percent(before - after, before)}` : ""}</span></div>
      <ul>${counts.map(([name, count]) => html`<li><b>${number(Number(count))}</b> ${name}</li>`)}</ul>
      ${report.why && html`<p class="why">${report.why}</p>`}
      ${preview.summary && html`<details><summary>The summary by rules</summary><div class="summary-scroll" tabindex="0" role="group" aria-label="Summary"><${Markdown} text=${preview.summary} /></div></details>`}
    </div>
  `;
}
