/**
 * The inline part of Markdown: emphasis, code, links. Pure.
 * @typedef {{type: "text", text: string}
 *   | {type: "code", text: string}
 *   | {type: "break"}
 *   | {type: "strong" | "em" | "strike", children: Inline[]}
 *   | {type: "link", href: string, children: Inline[]}} Inline
 */

const ESCAPABLE = /[!-/:-@[-`{-~]/;
const AUTOLINK = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/;
const BARE_LINK = /^https?:\/\/[^\s<>"'`\])}]+/;
const LINK_TARGET = /^\(\s*(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*))(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/;
const MAX_DEPTH = 8;

/** Return an address that a link may have; empty for every other, such as `javascript:`. @param {string} href */
export function safeAddress(href) {
  const cleaned = href.replace(/[\u0000-\u0020]/g, "");
  return /^(https?:\/\/|mailto:)/i.test(cleaned) ? cleaned : "";
}

/**
 * Return the inline nodes of a text.
 * @param {string} text
 * @param {number} [depth]
 * @returns {Inline[]}
 */
export function parseInline(text, depth = 0) {
  /** @type {Inline[]} */
  const nodes = [];
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain) nodes.push({ type: "text", text: plain });
    plain = "";
  };
  while (at < text.length) {
    const found = depth < MAX_DEPTH ? readSpecial(text, at, depth) : null;
    if (!found) {
      plain += text[at];
      at += 1;
      continue;
    }
    if (typeof found.node === "string") {
      plain += found.node;
    } else {
      if (found.node.type === "break") plain = plain.replace(/ +$/, "");
      flush();
      nodes.push(found.node);
    }
    at = found.end;
  }
  flush();
  return nodes;
}

/**
 * Read what begins at a place, if it is more than a character.
 * @param {string} text @param {number} at @param {number} depth
 * @returns {{node: Inline | string, end: number} | null}
 */
function readSpecial(text, at, depth) {
  switch (text[at]) {
    case "\\":
      return readEscape(text, at);
    case "`":
      return readCode(text, at);
    case "*":
    case "_":
    case "~":
      return readEmphasis(text, at, depth);
    case "!":
      return text[at + 1] === "[" ? readLink(text, at + 1, depth) : null;
    case "[":
      return readLink(text, at, depth);
    case "<":
      return readAutolink(text, at);
    case "h":
      return readBareLink(text, at);
    case "\n":
      return { node: /  $/.test(text.slice(0, at)) ? { type: "break" } : "\n", end: at + 1 };
    default:
      return null;
  }
}

/** @param {string} text @param {number} at */
function readEscape(text, at) {
  const next = text[at + 1];
  if (next === "\n") return { node: /** @type {Inline} */ ({ type: "break" }), end: at + 2 };
  return next !== undefined && ESCAPABLE.test(next) ? { node: next, end: at + 2 } : null;
}

/** @param {string} text @param {number} at */
function readCode(text, at) {
  const ticks = /^`+/.exec(text.slice(at, at + 80))?.[0] ?? "`";
  let from = at + ticks.length;
  for (;;) {
    const close = text.indexOf(ticks, from);
    if (close < 0) return { node: ticks, end: at + ticks.length };
    let end = close + ticks.length;
    if (text[end] !== "`") {
      let inner = text.slice(at + ticks.length, close).replace(/\n/g, " ");
      if (/^ .* $/.test(inner) && inner.trim()) inner = inner.slice(1, -1);
      return { node: /** @type {Inline} */ ({ type: "code", text: inner }), end };
    }
    while (text[end] === "`") end += 1;
    from = end;
  }
}

/** @param {string} text @param {number} at @param {number} depth */
function readEmphasis(text, at, depth) {
  const mark = text[at];
  let run = 1;
  while (text[at + run] === mark) run += 1;
  if (mark === "~" && run !== 2) return { node: text.slice(at, at + run), end: at + run };
  const after = text[at + run];
  const opens = after !== undefined && !/\s/.test(after) && !(mark === "_" && isWord(text[at - 1]));
  if (!opens) return { node: text.slice(at, at + run), end: at + run };
  for (const size of run >= 3 ? [3, 2, 1] : run === 2 ? [2, 1] : [1]) {
    if (mark === "~" && size !== 2) continue;
    const close = findClose(text, at + size, mark, size);
    if (close > at + size) {
      const children = parseInline(text.slice(at + size, close), depth + 1);
      return { node: emphasize(mark, size, children), end: close + size };
    }
  }
  return { node: text.slice(at, at + run), end: at + run };
}

/** @param {string} mark @param {number} size @param {Inline[]} children @returns {Inline} */
function emphasize(mark, size, children) {
  if (mark === "~") return { type: "strike", children };
  if (size === 3) return { type: "strong", children: [{ type: "em", children }] };
  return { type: size === 2 ? "strong" : "em", children };
}

/** Where a run of exactly `size` marks closes. @param {string} text @param {number} from @param {string} mark @param {number} size */
function findClose(text, from, mark, size) {
  let at = from;
  while (at < text.length) {
    if (text[at] === "\\") {
      at += 2;
    } else if (text[at] === "`") {
      at = readCode(text, at).end;
    } else if (text[at] === mark) {
      let run = 1;
      while (text[at + run] === mark) run += 1;
      const closes = !/\s/.test(text[at - 1]) && !(mark === "_" && isWord(text[at + run]));
      if (closes && run >= size && (run === size || size > 1)) return at + run - size;
      at += run;
    } else {
      at += 1;
    }
  }
  return -1;
}

/** @param {string | undefined} char */
const isWord = (char) => char !== undefined && /[\p{L}\p{N}]/u.test(char);

/** @param {string} text @param {number} at @param {number} depth */
function readLink(text, at, depth) {
  const close = findBracket(text, at);
  const target = close > 0 ? LINK_TARGET.exec(text.slice(close + 1, close + 2100)) : null;
  if (!target) return null;
  const label = text.slice(at + 1, close);
  const href = safeAddress((target[1] ?? target[2] ?? "").replace(/\\(.)/g, "$1"));
  const children = parseInline(label || href, depth + 1);
  const end = close + 1 + target[0].length;
  if (!href) return { node: label, end };
  return { node: /** @type {Inline} */ ({ type: "link", href, children }), end };
}

/** @param {string} text @param {number} at */
function findBracket(text, at) {
  let open = 0;
  for (let place = at; place < Math.min(text.length, at + 2000); place += 1) {
    const char = text[place];
    if (char === "\\") place += 1;
    else if (char === "[") open += 1;
    else if (char === "]") {
      open -= 1;
      if (open === 0) return place;
    }
  }
  return -1;
}

/** @param {string} text @param {number} at */
function readAutolink(text, at) {
  const found = AUTOLINK.exec(text.slice(at, at + 2000));
  return found && makeLink(found[1], at + found[0].length);
}

/** @param {string} text @param {number} at */
function readBareLink(text, at) {
  if (!text.startsWith("http", at) || isWord(text[at - 1])) return null;
  const found = BARE_LINK.exec(text.slice(at, at + 2000));
  if (!found) return null;
  const href = found[0].replace(/[.,;:!?*_~]+$/, "");
  return makeLink(href, at + href.length);
}

/** @param {string} href @param {number} end */
function makeLink(href, end) {
  const node = /** @type {Inline} */ ({ type: "link", href, children: [{ type: "text", text: href }] });
  return { node, end };
}
