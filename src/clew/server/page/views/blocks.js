/** One block of the conversation: a prompt, an answer, a tool call, a compaction … */

import { Component, html } from "../vendor/htm-preact.js";
import { clock, compact, duration, oneLine } from "../format.js";
import { Icon } from "./icons.js";
import { Markdown } from "./markdown.js";
import { ToolCall } from "./tool_call.js";

/** @typedef {import("../transcript.js").Block} BlockData */

/** A block that is drawn again only if it changed. */
export class Block extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    return next.block !== this.props.block || next.tool !== this.props.tool;
  }

  render() {
    const { block, tool, actions } = this.props;
    return DRAWN[/** @type {"prompt"} */ (block.type)]?.(block, actions, tool) ?? null;
  }
}

/** @type {Record<string, (block: BlockData, actions: any, tool: any) => any>} */
const DRAWN = {
  prompt: (block) => html`
    <article class="block prompt" data-entry=${block.entryId} aria-label="Your prompt">
      <${Images} images=${block.images} />
      <div class="prompt-text">${block.text}</div>
      <time class="when">${clock(block.at)}</time>
    </article>
  `,
  answer: (block) => html`
    <article class="block answer" data-entry=${block.entryId} aria-label="Answer"><${Markdown} text=${block.text} /></article>
  `,
  thinking: (block) => html`
    <details class="block thinking" data-entry=${block.entryId}>
      <summary>${block.seconds >= 1 ? `Thought for ${duration(block.seconds)}` : "Thought"} <span class="hint">${oneLine(block.text, 90)}</span></summary>
      <div class="thinking-text"><${Markdown} text=${block.text} /></div>
    </details>
  `,
  tool: (block, _actions, tool) => html`<${ToolCall} block=${block} tool=${tool} />`,
  images: (block) => html`<div class="block" data-entry=${block.entryId}><${Images} images=${block.images} /></div>`,
  compaction: (block, actions) => html`
    <div class="block divider compaction" data-entry=${block.entryId}>
      <button type="button" disabled=${!block.entryId} onClick=${() => actions.openReport(block.entryId)}>
        <${Icon} name="compact" />Compacted (${block.trigger})${block.tokens ? html` · <b>${compact(block.tokens.before)} → ${compact(block.tokens.after)}</b>` : ""} · loss report
      </button>
    </div>
  `,
  cleared: (block, actions) => html`
    <div class="block divider cleared" data-entry=${block.entryId}>
      <button type="button" disabled=${!block.entryId} onClick=${() => actions.openReport(block.entryId)} title=${block.why}>
        ${block.count} ${block.count === 1 ? "tool result" : "tool results"} cleared${block.tokens?.before ? html` · <b>${compact(block.tokens.before)} → ${compact(block.tokens.after)}</b>` : ""}
      </button>
    </div>
  `,
  notice: (block) => html`<p class=${`block notice ${block.level}`} data-entry=${block.entryId} role=${block.level === "error" ? "alert" : "note"}>${block.text}</p>`,
  reply: (block) => html`<div class=${`block reply ${block.level}`} role="note"><pre tabindex="0">${block.text}</pre></div>`,
  task: (block) => html`
    <details class=${`block task-note ${block.stage}`} data-entry=${block.entryId}>
      <summary><span class="tag">${block.kind}</span> ${block.name} <b>${block.stage}</b>${block.seconds === null ? "" : html` <span class="hint">${duration(block.seconds)}</span>`}</summary>
      <${Markdown} text=${block.text ?? ""} />
    </details>
  `,
};

/** @param {{text: string, since: number}} props */
export const LiveThinking = ({ text }) => html`
  <details class="block thinking live" open>
    <summary>Thinking</summary>
    <div class="thinking-text"><${Markdown} text=${text} /></div>
  </details>
`;

const SHOWN = /^image\/(png|jpeg|gif|webp|avif|bmp)$/;

/** Images whose bytes are in the journal; one that is only an address is a link, because nothing is loaded from elsewhere. */
export function Images({ images }) {
  if (!images?.length) return null;
  return html`
    <div class="images">
      ${images.map((/** @type {any} */ image, /** @type {number} */ at) => {
        const type = image.media_type ?? "image/png";
        if (image.data && SHOWN.test(type)) {
          return html`<img src=${`data:${type};base64,${image.data}`} alt=${`Image ${at + 1}`} loading="lazy" />`;
        }
        return html`<span class="tag">${image.url ? oneLine(image.url, 80) : type}</span>`;
      })}
    </div>
  `;
}
