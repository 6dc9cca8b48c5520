/**
 * Markdown as a tree of plain objects: the blocks. Pure; it builds no DOM and no HTML text.
 *
 * HTML in the source stays text. `views/markdown.js` turns the tree into elements.
 * @typedef {import("./markdown_inline.js").Inline} Inline
 * @typedef {{type: "heading", level: number, children: Inline[]}
 *   | {type: "paragraph", children: Inline[]}
 *   | {type: "code", language: string, text: string}
 *   | {type: "quote", children: Block[]}
 *   | {type: "list", ordered: boolean, start: number, items: Item[]}
 *   | {type: "table", align: string[], head: Inline[][], rows: Inline[][][]}
 *   | {type: "rule"}} Block
 * @typedef {{checked: boolean | null, children: Block[]}} Item
 */

import { parseInline } from "./markdown_inline.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const TABLE_RULE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const TASK = /^\[([ xX])\][ \t]+/;
const MAX_DEPTH = 12;

/**
 * Return the blocks of a text.
 * @param {string} text
 * @returns {Block[]}
 */
export function parseMarkdown(text) {
  return parseLines(splitLines(text), 0);
}

/**
 * Split a text into the sources of its top-level blocks; joined with line breaks they are the text.
 * While an answer arrives, all pieces but the last stay the same, so they need not be drawn again.
 * @param {string} text
 * @returns {string[]}
 */
export function splitBlocks(text) {
  const lines = splitLines(text);
  const pieces = [];
  let start = 0;
  while (start < lines.length) {
    let end = endOfBlock(lines, start);
    while (end < lines.length && isBlank(lines[end])) end += 1;
    pieces.push(lines.slice(start, end).join("\n"));
    start = end;
  }
  return pieces;
}

/** @param {string} text */
const splitLines = (text) => text.replace(/\r\n?/g, "\n").split("\n");
/** @param {string} line */
const isBlank = (line) => line.trim() === "";

/** Where the block that begins at `start` ends. @param {string[]} lines @param {number} start */
function endOfBlock(lines, start) {
  const line = lines[start];
  if (isBlank(line)) return start + 1;
  if (FENCE.test(line)) return endOfFence(lines, start);
  if (HEADING.test(line) || RULE.test(line)) return start + 1;
  if (QUOTE.test(line)) return endOfQuote(lines, start);
  if (ITEM.test(line)) return endOfList(lines, start);
  if (isTable(lines, start)) return endOfTable(lines, start);
  if (isIndented(line)) return endOfIndented(lines, start);
  return endOfParagraph(lines, start);
}

/** @param {string[]} lines @param {number} depth @returns {Block[]} */
function parseLines(lines, depth) {
  /** @type {Block[]} */
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    const end = endOfBlock(lines, at);
    if (!isBlank(lines[at])) blocks.push(parseBlock(lines.slice(at, end), depth));
    at = end;
  }
  return blocks;
}

/** @param {string[]} lines the lines of one block @param {number} depth @returns {Block} */
function parseBlock(lines, depth) {
  const first = lines[0];
  const fence = FENCE.exec(first);
  if (fence) return parseFence(lines, fence);
  const heading = HEADING.exec(first);
  if (heading) {
    return { type: "heading", level: heading[1].length, children: parseInline(heading[2] ?? "") };
  }
  if (RULE.test(first)) return { type: "rule" };
  if (depth < MAX_DEPTH) {
    if (QUOTE.test(first)) {
      const inner = lines.map((line) => line.replace(QUOTE, ""));
      return { type: "quote", children: parseLines(inner, depth + 1) };
    }
    if (ITEM.test(first)) return parseList(lines, depth);
  }
  if (isTable(lines, 0)) return parseTable(lines);
  if (isIndented(first)) {
    const text = lines.map((line) => line.replace(/^( {4}|\t)/, "")).join("\n");
    return { type: "code", language: "", text: text.trimEnd() };
  }
  const text = lines.map((line) => line.trimStart()).join("\n").trimEnd();
  return { type: "paragraph", children: parseInline(text) };
}

// Code

/** @param {string[]} lines @param {number} start */
function endOfFence(lines, start) {
  const mark = /** @type {RegExpExecArray} */ (FENCE.exec(lines[start]))[1];
  for (let at = start + 1; at < lines.length; at += 1) {
    if (closes(lines[at], mark)) return at + 1;
  }
  return lines.length;
}

/** @param {string} line @param {string} mark */
function closes(line, mark) {
  const text = line.trim();
  return text.length >= mark.length && text === mark[0].repeat(text.length) && !/^ {4}/.test(line);
}

/** @param {string[]} lines @param {RegExpExecArray} fence @returns {Block} */
function parseFence(lines, fence) {
  const closed = lines.length > 1 && closes(lines[lines.length - 1], fence[1]);
  const indent = /^ */.exec(lines[0])?.[0].length ?? 0;
  const inner = lines.slice(1, closed ? -1 : undefined).map((line) => dedent(line, indent));
  const language = fence[2].trim().split(/\s+/)[0] ?? "";
  return { type: "code", language, text: inner.join("\n") };
}

/** @param {string} line */
const isIndented = (line) => /^( {4}|\t)/.test(line);

/** @param {string[]} lines @param {number} start */
function endOfIndented(lines, start) {
  let end = start;
  for (let at = start; at < lines.length && (isIndented(lines[at]) || isBlank(lines[at])); at += 1) {
    if (!isBlank(lines[at])) end = at + 1;
  }
  return end;
}

/** @param {string} line @param {number} width */
function dedent(line, width) {
  let at = 0;
  while (at < width && line[at] === " ") at += 1;
  return line.slice(at);
}

// Paragraphs and quotes

/** Whether a line ends a paragraph although it is not blank. @param {string[]} lines @param {number} at */
function interrupts(lines, at) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)) return true;
  const item = ITEM.exec(line);
  return item !== null && Boolean(item[4]?.trim()) && (!/\d/.test(item[2]) || item[2].length === 2);
}

/** @param {string[]} lines @param {number} start */
function endOfParagraph(lines, start) {
  let at = start + 1;
  while (at < lines.length && !isBlank(lines[at]) && !interrupts(lines, at)) {
    if (isTable(lines, at)) break;
    at += 1;
  }
  return at;
}

/** @param {string[]} lines @param {number} start */
function endOfQuote(lines, start) {
  let at = start + 1;
  while (at < lines.length && (QUOTE.test(lines[at]) || (!isBlank(lines[at]) && !interrupts(lines, at)))) {
    at += 1;
  }
  return at;
}

// Lists

/** @param {string} mark */
const kindOf = (mark) => mark[mark.length - 1];

/** @param {string[]} lines @param {number} start */
function endOfList(lines, start) {
  const kind = kindOf(/** @type {RegExpExecArray} */ (ITEM.exec(lines[start]))[2]);
  let end = start + 1;
  let indent = contentIndent(lines[start]);
  for (let at = start + 1; at < lines.length; at += 1) {
    const line = lines[at];
    if (isBlank(line)) continue;
    const item = ITEM.exec(line);
    const isSibling = item !== null && kindOf(item[2]) === kind && !RULE.test(line);
    if (isSibling) indent = contentIndent(line);
    const belongs = isSibling || leading(line) >= Math.min(indent, 2);
    const isLazy = at > 0 && !isBlank(lines[at - 1]) && !interrupts(lines, at);
    if (!belongs && !isLazy) break;
    end = at + 1;
  }
  return end;
}

/** @param {string} line */
const leading = (line) => /^[ \t]*/.exec(line)?.[0].replace(/\t/g, "    ").length ?? 0;

/** @param {string} line */
function contentIndent(line) {
  const item = /** @type {RegExpExecArray} */ (ITEM.exec(line));
  const gap = item[3] && item[3].length <= 4 ? item[3].length : 1;
  return item[1].length + item[2].length + gap;
}

/** @param {string[]} lines @param {number} depth @returns {Block} */
function parseList(lines, depth) {
  const first = /** @type {RegExpExecArray} */ (ITEM.exec(lines[0]));
  const kind = kindOf(first[2]);
  const ordered = /\d/.test(first[2]);
  /** @type {string[][]} */
  const groups = [];
  let indent = 0;
  for (const line of lines) {
    const item = ITEM.exec(line);
    if (item && kindOf(item[2]) === kind && leading(line) < Math.max(indent, 1) && !RULE.test(line)) {
      groups.push([(item[4] ?? "").trimEnd()]);
      indent = contentIndent(line);
    } else if (groups.length) {
      groups[groups.length - 1].push(dedent(line.replace(/^\t/, "    "), indent));
    }
  }
  const items = groups.map((group) => parseItem(group, depth));
  return { type: "list", ordered, start: ordered ? parseInt(first[2], 10) : 1, items };
}

/** @param {string[]} lines @param {number} depth @returns {Item} */
function parseItem(lines, depth) {
  const task = TASK.exec(lines[0]);
  const own = task ? [lines[0].slice(task[0].length), ...lines.slice(1)] : lines;
  return { checked: task ? task[1] !== " " : null, children: parseLines(own, depth + 1) };
}

// Tables

/** @param {string[]} lines @param {number} at */
function isTable(lines, at) {
  const rule = lines[at + 1];
  if (rule === undefined || !lines[at].includes("|") || !TABLE_RULE.test(rule)) return false;
  return splitRow(lines[at]).length === splitRow(rule).length;
}

/** @param {string[]} lines @param {number} start */
function endOfTable(lines, start) {
  let at = start + 2;
  while (at < lines.length && !isBlank(lines[at]) && lines[at].includes("|")) at += 1;
  return at;
}

/** @param {string} line @returns {string[]} */
function splitRow(line) {
  const inner = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

/** @param {string[]} lines @returns {Block} */
function parseTable(lines) {
  const align = splitRow(lines[1]).map((cell) => {
    if (/^:-+:$/.test(cell)) return "center";
    return /-:$/.test(cell) ? "right" : "";
  });
  const fill = (/** @type {string[]} */ cells) => align.map((_, at) => parseInline(cells[at] ?? ""));
  return {
    type: "table",
    align,
    head: fill(splitRow(lines[0])),
    rows: lines.slice(2).map((line) => fill(splitRow(line))),
  };
}
