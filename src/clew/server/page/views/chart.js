/**
 * The chart of the timeline: tokens per model call, stacked by kind, with the window's limit as a
 * line and each compaction, clearing and undo as a mark.
 *
 * There is one path per kind, whatever the number of calls; where calls are denser than pixels,
 * `makeColumns` has one column for several.
 */

import { html, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { clock, compact, dollars, number, percent } from "../format.js";
import { KINDS, countBefore, makeColumns, makeTicks, nameOfMark, placeOfMark, scaleTop, undoneMarks } from "../timeline.js";

/** @typedef {import("../timeline.js").Timeline} Timeline @typedef {import("../timeline.js").Point} Point @typedef {import("../timeline.js").Mark} Mark */

const HEIGHT = 150;
const LEFT = 44;
const RIGHT = 14;
const TOP = 20;
const BOTTOM = 6;
const PLOT = HEIGHT - TOP - BOTTOM;
const MARK = 17;
const THRESHOLDS = { warn: "warns at", compact: "compacts at", block: "sends nothing above" };

/** Return the width of an element, kept up to date. @returns {[any, number]} */
function useWidth() {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => setWidth(Math.floor(element.clientWidth)));
    observer.observe(element);
    setWidth(Math.floor(element.clientWidth));
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/**
 * @param {{timeline: Timeline, full: boolean, kind: string, selected: number,
 *   onMark: (id: number) => void, onCall: (id: number) => void}} props
 */
export function Chart({ timeline, full, kind, selected, onMark, onCall }) {
  const [ref, width] = useWidth();
  const [active, setActive] = useState(-1);
  const { points, marks } = timeline;
  const inner = Math.max(0, width - LEFT - RIGHT);
  const top = useMemo(() => scaleTop(timeline, full), [timeline, full]);
  const { columns, step } = useMemo(() => makeColumns(points, inner), [points, inner]);
  const y = (/** @type {number} */ tokens) => TOP + PLOT - (Math.min(tokens, top) / top) * PLOT;
  const shapes = useMemo(() => KINDS.map((_, layer) => drawLayer(columns, layer, kind, top)), [columns, kind, top]);
  const point = active >= 0 && active < points.length ? points[active] : null;

  /** @param {number} clientX */
  const find = (clientX) => {
    const left = ref.current.getBoundingClientRect().left + LEFT;
    const at = Math.floor((clientX - left) / step);
    return points.length && at >= 0 && at < points.length ? at : -1;
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    const moves = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -points.length, End: points.length };
    const move = moves[/** @type {"Home"} */ (event.key)];
    if (move !== undefined) {
      const from = active < 0 ? points.length - 1 - move : active;
      setActive(Math.max(0, Math.min(points.length - 1, from + move)));
    } else if (event.key === "Enter" && point) {
      onCall(point.entry_id);
    } else if (event.key === "Escape" && active >= 0) {
      setActive(-1);
    } else {
      return;
    }
    event.preventDefault();
  };
  return html`
    <div class="chart" ref=${ref}>
      <div class="plot" id="timeline" tabindex="0" role="application" aria-roledescription="chart" aria-label=${describe(timeline)}
        onMouseMove=${(/** @type {MouseEvent} */ event) => setActive(find(event.clientX))} onMouseLeave=${() => setActive(-1)}
        onClick=${() => point && onCall(point.entry_id)} onKeyDown=${onKeyDown} onBlur=${() => setActive(-1)}>
        ${width > 0 && html`
          <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} aria-hidden="true">
            ${points.length > 0 && html`<${Scale} top=${top} width=${width} y=${y} />`}
            <g transform=${`translate(${LEFT} 0)`}>
              ${KINDS.map(({ key }, layer) => html`<path class=${`layer k-${key}`} d=${shapes[layer]} />`)}
              <${Limits} timeline=${timeline} step=${step} top=${top} width=${inner} y=${y} />
              ${point && html`<rect class="cursor" x=${active * step} y=${TOP} width=${Math.max(1, step)} height=${PLOT} />`}
            </g>
          </svg>
        `}
        ${!points.length && html`<p class="empty">The first answer of the model begins the timeline.</p>`}
      </div>
      <${Marks} points=${points} marks=${marks} step=${step} width=${inner} y=${y} selected=${selected} onMark=${onMark} />
      ${point && html`<${Tooltip} timeline=${timeline} at=${active} x=${LEFT + (active + 0.5) * step} width=${width} />`}
      <p class="sr-only" aria-live="polite">${point ? sayPoint(point, active) : ""}</p>
    </div>
  `;
}

/**
 * Return the path of one kind over all columns; the other kinds are drawn flat if one is chosen.
 * @param {ReturnType<typeof makeColumns>["columns"]} columns @param {number} layer @param {string} kind @param {number} top
 */
function drawLayer(columns, layer, kind, top) {
  const { key } = KINDS[layer];
  if (kind && kind !== key) return "";
  const below = kind ? [] : KINDS.slice(0, layer);
  let path = "";
  for (const { x, width, point } of columns) {
    const tokens = point.breakdown[key] ?? 0;
    if (!tokens) continue;
    let from = 0;
    for (const one of below) from += point.breakdown[one.key] ?? 0;
    const low = TOP + PLOT - (from / top) * PLOT;
    const high = TOP + PLOT - (Math.min(from + tokens, top) / top) * PLOT;
    path += `M${x.toFixed(1)} ${low.toFixed(1)}V${high.toFixed(1)}h${width.toFixed(1)}V${low.toFixed(1)}z`;
  }
  return path;
}

/** @param {{top: number, width: number, y: (tokens: number) => number}} props */
function Scale({ top, width, y }) {
  return makeTicks(top, 3).map(
    (tick) => html`
      <g class="tick">
        <line x1=${LEFT} x2=${width - RIGHT} y1=${y(tick)} y2=${y(tick)} />
        <text x=${LEFT - 8} y=${y(tick) + 3.5} text-anchor="end">${compact(tick)}</text>
      </g>
    `,
  );
}

/** The window's limit, which steps where the model changes, and the thresholds below it. */
function Limits({ timeline, step, top, width, y }) {
  const { points, thresholds } = timeline;
  if (!points.length) return null;
  const window = points[points.length - 1].window;
  let path = "";
  points.forEach((/** @type {Point} */ point, /** @type {number} */ at) => {
    if (at === 0 || point.window !== points[at - 1].window) {
      path += `${at ? `H${(at * step).toFixed(1)}V` : "M0 "}${y(point.window).toFixed(1)}`;
    }
  });
  const lines = Object.entries(thresholds ?? {}).filter(([, value]) => value !== null && value > 0 && value <= top);
  return html`
    ${window <= top && html`<path class="limit" d=${`${path}H${width}`} />`}
    ${lines.map(([name, value]) => html`
      <line class=${`threshold ${name}`} x1="0" x2=${width} y1=${y(value)} y2=${y(value)}><title>${THRESHOLDS[/** @type {"warn"} */ (name)]} ${number(value)}</title></line>
      ${name === "compact" && html`<text class="limit-name" x=${width} y=${y(value) + 11} text-anchor="end">compacts at ${compact(value)}</text>`}
    `)}
    <text class="limit-name" x=${width} y=${window <= top ? Math.max(11, y(window) - 5) : 11} text-anchor="end">
      ${`window ${compact(window)}${window <= top ? "" : " ↑"}`}
    </text>
  `;
}

/** Marks are buttons, so that a keyboard and a screen reader reach them. */
function Marks({ points, marks, step, width, y, selected, onMark }) {
  const undone = useMemo(() => undoneMarks(marks), [marks]);
  let last = -Infinity;
  return html`
    <ol class="marks" aria-label="Changes of the window">
      ${marks.map((/** @type {Mark} */ mark) => {
        const x = LEFT + Math.min(width, placeOfMark(points, step, mark.entry_id));
        const isOpen = selected === mark.entry_id;
        const classes = ["mark", mark.kind, isOpen ? "open" : "", undone.has(mark.entry_id) ? "undone" : ""].join(" ");
        // Marks between the same two calls stand side by side.
        const shift = Math.max(0, last + MARK - x);
        last = x + shift;
        const high = y(mark.tokens_before);
        const low = y(mark.tokens_after);
        return html`
          <li key=${mark.entry_id} class=${classes} style=${{ left: `${x}px` }}>
            <span class="drop" style=${{ top: `${Math.min(high, low)}px`, height: `${Math.abs(low - high)}px` }}></span>
            <button type="button" style=${shift ? { marginLeft: `${shift}px` } : {}} data-mark=${mark.entry_id} aria-expanded=${isOpen} aria-label=${sayMark(mark, undone.has(mark.entry_id))} title=${sayMark(mark, undone.has(mark.entry_id))} onClick=${() => onMark(mark.entry_id)}></button>
          </li>
        `;
      })}
    </ol>
  `;
}

/** @param {Mark} mark @param {boolean} isUndone */
function sayMark(mark, isUndone) {
  const trigger = mark.trigger ? ` (${mark.trigger})` : "";
  const target = mark.target ? ` of #${mark.target}` : "";
  const model = mark.kind === "model" ? ` to ${mark.model}` : "";
  const tokens = mark.tokens_before === mark.tokens_after ? "" : `: ${number(mark.tokens_before)} → ${number(mark.tokens_after)} tokens`;
  return `${nameOfMark(mark)}${trigger}${target}${model}${tokens}${isUndone ? ", undone" : ""}`;
}

/** @param {Point} point @param {number} at */
const sayPoint = (point, at) =>
  `Call ${at + 1}: ${number(point.tokens)} tokens, ${percent(point.tokens, point.window)} of the window`;

/** @param {Timeline} timeline */
function describe({ points, marks }) {
  if (!points.length) return "Timeline of the context window; no calls yet";
  const compactions = marks.filter((one) => one.kind === "compaction").length;
  const last = points[points.length - 1];
  return `Timeline of the context window: ${number(points.length)} calls, ${compactions} compactions; now ${number(last.tokens)} of ${number(last.window)} tokens. Arrow keys move between calls.`;
}

/** @param {{timeline: Timeline, at: number, x: number, width: number}} props */
function Tooltip({ timeline, at, x, width }) {
  const { points } = timeline;
  const point = points[at];
  const change = at ? point.tokens - points[at - 1].tokens : point.tokens;
  const cached = point.usage?.cache_read_tokens ?? 0;
  const marks = timeline.marks.filter((one) => countBefore(points, one.entry_id) === at);
  const isRight = x > width - 230;
  return html`
    <div class=${`tooltip ${isRight ? "from-right" : ""}`} style=${isRight ? { right: `${width - x + 10}px` } : { left: `${x + 10}px` }} aria-hidden="true">
      <div class="tooltip-head"><b>${number(point.tokens)}</b> tokens <span>${percent(point.tokens, point.window)}</span></div>
      <div class="tooltip-sub">call ${at + 1} · #${point.entry_id} · ${clock(point.at)} · ${change >= 0 ? "+" : "−"}${compact(Math.abs(change))}</div>
      <dl>
        ${[...KINDS].reverse().map(({ key, label }) => {
          const tokens = point.breakdown[key] ?? 0;
          return tokens ? html`<dt><span class=${`swatch k-${key}`}></span>${label}</dt><dd>${number(tokens)}</dd>` : null;
        })}
        ${cached > 0 && html`<dt class="extra">from cache</dt><dd>${number(cached)}</dd>`}
        ${point.cost !== undefined && point.cost !== null && html`<dt class="extra">cost</dt><dd>${dollars(point.cost)}</dd>`}
      </dl>
      ${marks.map((mark) => html`<div class="tooltip-mark">${sayMark(mark, false)}</div>`)}
      <div class="tooltip-sub">${point.model}${point.basis === "exact" ? "" : " · estimated"}</div>
    </div>
  `;
}
