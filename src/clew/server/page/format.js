/** Numbers, times and sizes as people read them. Pure. */

/** @type {[number, string][]} */
const COMPACT_STEPS = [
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "k"],
];

/**
 * Return a token count in at most four characters and a unit: `950`, `8.2k`, `128k`, `1.2M`.
 * @param {number} count
 */
export function compact(count) {
  const size = Math.abs(count);
  for (const [step, unit] of COMPACT_STEPS) {
    if (size >= step * 0.9995) {
      const value = count / step;
      return `${Math.abs(value) < 9.95 ? trimZero(value.toFixed(1)) : Math.round(value)}${unit}`;
    }
  }
  return String(Math.round(count));
}

/** @param {string} text */
const trimZero = (text) => text.replace(/\.0$/, "");

const grouped = new Intl.NumberFormat("en-US");

/** Return a count with separators: `12,345`. @param {number} count */
export const number = (count) => grouped.format(Math.round(count));

/** Return a count and its noun: `1 entry`, `12 entries`. @param {number} count @param {string} one @param {string} [many] */
export const plural = (count, one, many) =>
  `${number(count)} ${count === 1 ? one : (many ?? `${one}s`)}`;

/** Return a share in percent: `0.4 %`, `41 %`. @param {number} part @param {number} whole */
export function percent(part, whole) {
  if (!whole) return "0 %";
  const value = (part / whole) * 100;
  return `${value > 0 && value < 9.95 ? trimZero(value.toFixed(1)) : Math.round(value)} %`;
}

/** Return an amount of US dollars. @param {number | null | undefined} usd */
export function dollars(usd) {
  if (usd === null || usd === undefined) return "unknown";
  if (usd === 0) return "$0";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

/** Return a duration: `0.4 s`, `12 s`, `3 min 20 s`, `2 h 5 min`. @param {number} seconds */
export function duration(seconds) {
  if (seconds < 10) return `${trimZero(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  const hours = Math.floor(minutes / 60);
  return `${hours} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
}

/** Return how long ago a time was, or its date. @param {number} at @param {number} now both in seconds */
export function ago(at, now) {
  const seconds = Math.max(0, now - at);
  if (seconds < 60) return "now";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h`;
  if (seconds < 7 * 86_400) return `${Math.floor(seconds / 86_400)} d`;
  return new Date(at * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

/** Return the time of day, with the date unless it is today. @param {number} at @param {number} [now] */
export function clock(at, now = Date.now() / 1000) {
  const date = new Date(at * 1000);
  const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === new Date(now * 1000).toDateString()) return time;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

/** Return a text as one line of bounded length. @param {string} text @param {number} limit */
export function oneLine(text, limit = 120) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= limit ? line : `${line.slice(0, limit - 1)}…`;
}

/** Return the last parts of a path. @param {string} path @param {number} parts */
export function shortPath(path, parts = 2) {
  const names = path.split("/").filter(Boolean);
  return names.length <= parts ? path : `…/${names.slice(-parts).join("/")}`;
}
