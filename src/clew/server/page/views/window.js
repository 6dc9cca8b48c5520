/** The context window: how full it is, with what, and how it became so. Always visible. */

import { html, useState } from "../vendor/htm-preact.js";
import { compact, number, percent } from "../format.js";
import { useStore } from "../store.js";
import { KINDS, prefersFull } from "../timeline.js";
import { Chart } from "./chart.js";
import { Icon } from "./icons.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

/**
 * @param {{session: OpenSession, selected: number, onMark: (id: number) => void,
 *   onCall: (id: number) => void, onCompact: () => void}} props
 */
export function ContextWindow({ session, selected, onMark, onCall, onCompact }) {
  const context = useStore(session.store, (state) => state.context);
  const timeline = useStore(session.store, (state) => state.timeline);
  const compaction = useStore(session.store, (state) => state.transcript.compaction);
  const [choice, setChoice] = useState(/** @type {boolean | null} */ (null));
  const [kind, setKind] = useState("");
  const isFull = choice ?? prefersFull(timeline);
  if (!context) return html`<section class="window loading" aria-label="Context window"></section>`;
  return html`
    <section class="window" aria-labelledby="window-title">
      <div class="window-head">
        <h2 id="window-title">Context window</h2>
        <${Gauge} context=${context} />
        ${compaction && html`<span class="working" role="status">${compaction}</span>`}
        <div class="window-actions">
          <div class="segmented" role="group" aria-label="Scale of the chart">
            <button type="button" aria-pressed=${!isFull} onClick=${() => setChoice(false)}>Fit</button>
            <button type="button" aria-pressed=${isFull} onClick=${() => setChoice(true)}>Full</button>
          </div>
          <button type="button" class="quiet" aria-label="Compact the window" title="Compact the window (k)" onClick=${onCompact}><${Icon} name="compact" /><span class="words">Compact…</span></button>
        </div>
      </div>
      <${Legend} breakdown=${context.breakdown} total=${context.used_tokens} kind=${kind} onKind=${setKind} />
      <${Chart} timeline=${timeline} full=${isFull} kind=${kind} selected=${selected} onMark=${onMark} onCall=${onCall} />
    </section>
  `;
}

/** @param {{context: any}} props */
export function Gauge({ context }) {
  const { used_tokens: used, max_tokens: limit, status, basis, breakdown } = context;
  const isExact = basis === "exact";
  const words = `${number(used)} of ${number(limit)} tokens used, ${percent(used, limit)}${isExact ? "" : ", estimated"}`;
  return html`
    <div class=${`gauge ${status}`} title=${words}>
      <span class="gauge-number" data-testid="gauge">${isExact ? "" : "≈"}${compact(used)}</span>
      <span class="gauge-limit">of ${compact(limit)}</span>
      <div class="bar" role="meter" aria-label="Context window" aria-valuemin="0" aria-valuemax=${limit} aria-valuenow=${Math.min(used, limit)} aria-valuetext=${words}>
        ${KINDS.map(({ key }) => html`<span class=${`fill k-${key}`} style=${{ width: `${share(breakdown[key], limit)}%` }}></span>`)}
      </div>
      <span class="gauge-percent">${percent(used, limit)}</span>
    </div>
  `;
}

/** @param {number | undefined} part @param {number} whole */
const share = (part, whole) => (whole ? Math.min(100, ((part ?? 0) / whole) * 100) : 0);

/** @param {{breakdown: Record<string, number>, total: number, kind: string, onKind: (kind: string) => void}} props */
function Legend({ breakdown, total, kind, onKind }) {
  return html`
    <ul class="legend" aria-label="Tokens by kind">
      ${KINDS.map(({ key, label }) => {
        const tokens = breakdown[key] ?? 0;
        return html`
          <li>
            <button type="button" class=${tokens ? "" : "none"} aria-pressed=${kind === key} title=${`${label}: ${number(tokens)} tokens, ${percent(tokens, total)} of what is used. Click to show only this kind.`} onClick=${() => onKind(kind === key ? "" : key)}>
              <span class=${`swatch k-${key}`}></span>${label} <b>${compact(tokens)}</b>
            </button>
          </li>
        `;
      })}
    </ul>
  `;
}
