/** The simulator: what other strategies would have done with this session. No model is called. */

import { html, useMemo, useState } from "../vendor/htm-preact.js";
import { api, ApiError } from "../api.js";
import { compact, number, percent } from "../format.js";
import { makeTicks } from "../timeline.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

const WIDTH = 720;
const HEIGHT = 200;
const LEFT = 44;

/** @param {{session: OpenSession}} props */
export function Simulator({ session }) {
  const [window, setWindow] = useState("");
  const [result, setResult] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState("");
  const [isWorking, setWorking] = useState(false);
  const [chosen, setChosen] = useState("");
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setWorking(true);
    setFailure("");
    try {
      setResult(await api.simulate(session.id, window ? { window: Number(window) } : {}));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFailure(error.message);
    }
    setWorking(false);
  };
  const runs = result?.strategies ?? [];
  return html`
    <div class="simulator scroller" tabindex="0" role="region" aria-label="Simulator">
      <div class="column wide">
        <h2>What other strategies would have done with this session</h2>
        <form class="simulator-form" onSubmit=${run}>
          <label>Window in tokens <input type="number" min="1000" step="1000" value=${window} placeholder="as recorded" onInput=${(/** @type {any} */ event) => setWindow(event.target.value)} /></label>
          <button type="submit" class="primary" disabled=${isWorking}>${isWorking ? "Simulating…" : "Simulate"}</button>
          <span class="hint">Replays the journal under each strategy. No model is called.</span>
        </form>
        ${failure && html`<p class="notice error" role="alert">${failure}</p>`}
        ${runs.length > 0 && html`<${Lines} runs=${runs} chosen=${chosen} /><${Table} runs=${runs} chosen=${chosen} onChoose=${setChosen} />`}
      </div>
    </div>
  `;
}

/** Tokens over the calls, one line per strategy. @param {{runs: any[], chosen: string}} props */
function Lines({ runs, chosen }) {
  const { top, paths } = useMemo(() => makeLines(runs), [runs]);
  const y = (/** @type {number} */ tokens) => HEIGHT - 8 - (tokens / top) * (HEIGHT - 20);
  return html`
    <svg class="simulation-chart" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="Tokens of each request under each strategy">
      ${makeTicks(top, 4).map((tick) => html`<g class="tick"><line x1=${LEFT} x2=${WIDTH} y1=${y(tick)} y2=${y(tick)} /><text x=${LEFT - 8} y=${y(tick) + 3.5} text-anchor="end">${compact(tick)}</text></g>`)}
      ${paths.map(({ name, path }, at) => html`<path class=${`run run-${at % 7} ${chosen && chosen !== name ? "faded" : ""}`} d=${path} />`)}
    </svg>
  `;
}

/** @param {any[]} runs */
export function makeLines(runs) {
  let top = 1;
  for (const run of runs) for (const point of run.calls) top = Math.max(top, point.tokens);
  const paths = runs.map((run) => {
    const points = run.calls;
    const scale = (WIDTH - LEFT) / Math.max(1, points.length - 1);
    const every = Math.max(1, Math.floor(points.length / (WIDTH - LEFT)));
    const path = points
      .filter((/** @type {any} */ _, /** @type {number} */ at) => at % every === 0)
      .map((/** @type {any} */ point, /** @type {number} */ at) => `${at ? "L" : "M"}${(LEFT + at * every * scale).toFixed(1)} ${(HEIGHT - 8 - (point.tokens / top) * (HEIGHT - 20)).toFixed(1)}`)
      .join("");
    return { name: run.strategy, path };
  });
  return { top, paths };
}

/** @param {{runs: any[], chosen: string, onChoose: (name: string) => void}} props */
function Table({ runs, chosen, onChoose }) {
  return html`
    <div class="table" tabindex="0" role="group" aria-label="Results">
      <table class="simulation">
        <thead><tr>${["Strategy", "Cost", "Peak", "Compactions", "Clearings", "Kept", "Too long"].map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
        <tbody>
          ${runs.map((run, at) => html`
            <tr class=${chosen === run.strategy ? "chosen" : ""} onMouseEnter=${() => onChoose(run.strategy)} onMouseLeave=${() => onChoose("")}>
              <th scope="row"><span class=${`swatch run-${at % 7}`}></span>${run.strategy}</th>
              <td>${compact(run.cost)} ${run.relative_cost !== null && html`<span class="hint">${percent(run.relative_cost, 1)}</span>`}</td>
              <td>${compact(run.peak_tokens)}</td>
              <td>${number(run.compactions)}</td>
              <td>${number(run.clearings)}</td>
              <td>${run.recall === null ? "–" : percent(run.recall, 1)}</td>
              <td>${number(run.oversized_requests)}</td>
            </tr>
          `)}
        </tbody>
      </table>
    </div>
    <p class="hint">Cost is the input in tokens at the plain price, with cached tokens at the cache's price. Kept is the share of names that the model used again after a compaction and that the window still had.</p>
  `;
}
