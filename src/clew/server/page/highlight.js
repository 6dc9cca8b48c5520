/** Colours for code: comments, strings, numbers and words that languages share. Pure. */

const HASH = new Set(["py", "python", "sh", "bash", "shell", "zsh", "yaml", "yml", "toml", "rb", "ruby", "make", "makefile", "dockerfile", "ini", "conf", "r", "perl"]);
const PLAIN = new Set(["", "text", "txt", "plain", "log", "output", "console", "md", "markdown"]);
const WORDS = new Set(
  ("and as async await break case catch class const continue def default defer delete do done elif else end enum except export extends " +
    "false False fi finally fn for from func function go if impl implements import in interface is lambda let loop match mod mut new nil None not null " +
    "or package pass pub raise return select self static struct super switch then this throw trait true True try type typeof use using var void where while with yield " +
    "SELECT FROM WHERE INSERT INTO UPDATE SET DELETE CREATE TABLE JOIN ON GROUP ORDER BY LIMIT AND OR NOT NULL VALUES").split(" "),
);
const MAX_LENGTH = 60_000;

/**
 * Split code into pieces with a class each; the pieces together are the text.
 * @param {string} text
 * @param {string} language
 * @returns {{kind: string, text: string}[]}
 */
export function highlight(text, language) {
  const name = language.toLowerCase();
  if (PLAIN.has(name) || text.length > MAX_LENGTH) return [{ kind: "", text }];
  if (name === "diff" || name === "patch") return highlightDiff(text);
  const comment = HASH.has(name) ? "#[^\\n]*" : name === "sql" || name === "lua" ? "--[^\\n]*" : "//[^\\n]*|/\\*[\\s\\S]*?\\*/";
  const pattern = new RegExp(
    `(?<comment>${comment})|(?<string>"""[\\s\\S]*?"""|"(?:[^"\\\\\\n]|\\\\.)*"|'(?:[^'\\\\\\n]|\\\\.)*'|\`(?:[^\`\\\\]|\\\\.)*\`)|(?<number>\\b\\d[\\w.]*)|(?<word>[A-Za-z_]\\w*)`,
    "g",
  );
  return split(text, pattern);
}

/** @param {string} text @param {RegExp} pattern */
function split(text, pattern) {
  /** @type {{kind: string, text: string}[]} */
  const pieces = [];
  let plain = 0;
  for (const found of text.matchAll(pattern)) {
    const groups = found.groups ?? {};
    let kind = ["comment", "string", "number"].find((one) => groups[one] !== undefined) ?? "";
    if (!kind && WORDS.has(found[0])) kind = "keyword";
    if (!kind && text[found.index + found[0].length] === "(") kind = "call";
    if (!kind) continue;
    if (found.index > plain) pieces.push({ kind: "", text: text.slice(plain, found.index) });
    pieces.push({ kind, text: found[0] });
    plain = found.index + found[0].length;
  }
  if (plain < text.length) pieces.push({ kind: "", text: text.slice(plain) });
  return pieces;
}

/** @param {string} text */
function highlightDiff(text) {
  const kinds = { "+": "added", "-": "removed", "@": "comment" };
  return text.split(/(?<=\n)/).map((line) => ({ kind: kinds[/** @type {"+"} */ (line[0])] ?? "", text: line }));
}
