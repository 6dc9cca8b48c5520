/** Markdown as elements. Text becomes text nodes, so nothing in it can become markup. */

import { Component, h, html } from "../vendor/htm-preact.js";
import { parseMarkdown, splitBlocks } from "../markdown.js";
import { Code } from "./code.js";

/** @typedef {import("../markdown.js").Block} Block @typedef {import("../markdown_inline.js").Inline} Inline */

/** A piece that is not drawn again while its source stays the same. */
class Piece extends Component {
  /** @param {{source: string}} next */
  shouldComponentUpdate(next) {
    return next.source !== this.props.source;
  }

  render() {
    return parseMarkdown(this.props.source).map(drawBlock);
  }
}

/** @param {{text: string}} props */
export function Markdown({ text }) {
  return html`<div class="markdown">${splitBlocks(text).map((source, at) => h(Piece, { key: at, source }))}</div>`;
}

/** @param {Block} block */
function drawBlock(block) {
  switch (block.type) {
    case "heading":
      // The page has its own first two levels.
      return h(`h${Math.min(6, block.level + 2)}`, { class: `level-${block.level}` }, block.children.map(drawInline));
    case "paragraph":
      return html`<p>${block.children.map(drawInline)}</p>`;
    case "code":
      return html`<${Code} language=${block.language} text=${block.text} />`;
    case "quote":
      return html`<blockquote>${block.children.map(drawBlock)}</blockquote>`;
    case "list":
      return h(block.ordered ? "ol" : "ul", block.start === 1 ? {} : { start: block.start }, block.items.map(drawItem));
    case "table":
      return drawTable(block);
    default:
      return html`<hr />`;
  }
}

/** @param {import("../markdown.js").Item} item */
function drawItem(item) {
  const [first, ...rest] = item.children;
  const isTight = first?.type === "paragraph";
  const own = isTight ? [...first.children.map(drawInline), ...rest.map(drawBlock)] : item.children.map(drawBlock);
  if (item.checked === null) return html`<li>${own}</li>`;
  const label = item.checked ? "done" : "to do";
  return html`<li class="task-item"><span class="box" role="img" aria-label=${label}>${item.checked ? "✓" : ""}</span>${own}</li>`;
}

/** @param {Extract<Block, {type: "table"}>} table */
function drawTable(table) {
  const cell = (/** @type {string} */ tag) => (/** @type {Inline[]} */ children, /** @type {number} */ at) =>
    h(tag, { class: table.align[at] || undefined, ...(tag === "th" ? { scope: "col" } : {}) }, children.map(drawInline));
  return html`
    <div class="table" tabindex="0" role="group" aria-label="Table">
      <table>
        <thead><tr>${table.head.map(cell("th"))}</tr></thead>
        <tbody>${table.rows.map((row) => html`<tr>${row.map(cell("td"))}</tr>`)}</tbody>
      </table>
    </div>
  `;
}

/** @param {Inline} node */
function drawInline(node) {
  switch (node.type) {
    case "text":
      return node.text;
    case "code":
      return html`<code>${node.text}</code>`;
    case "break":
      return html`<br />`;
    case "link":
      return html`<a href=${node.href} target="_blank" rel="noopener noreferrer">${node.children.map(drawInline)}</a>`;
    case "strike":
      return html`<s>${node.children.map(drawInline)}</s>`;
    default:
      return h(node.type, {}, node.children.map(drawInline));
  }
}
