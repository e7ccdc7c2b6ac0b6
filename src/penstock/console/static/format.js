// @ts-check
// Numbers, times and sizes as text. Pure except `time` and `age`, which make elements.
//
//   decimal("61234.50000000")   "61,234.50000000": groups digits, never through a float
//   count(12345)                "12,345"      compact(12345) "12.3 k"     rate(1234.5) "1,235"
//   percent(0.9731)             "97.3 %": rounds down, so that 99.99 % never reads as 100 %
//   bytes(1536)                 "1.5 KiB"     duration(65000) "1 m 5 s"   seconds: duration(350) "350 ms"
//   utc(ms), utcTime(ms), utcDay(ms)          "2026-11-18 07:12:30", "07:12:30", "2026-11-18"
//   time(ms)                    <time datetime title> in UTC with the local time on hover
//   ago(ms, now)                "12 s ago", "in 3 m"
//   Unknown (null) is "–", never 0.

export const UNKNOWN = "–";

/**
 * @param {string | number | null | undefined} text  a decimal as the server wrote it
 * @returns {string}
 */
export function decimal(text) {
  if (text === null || text === undefined || text === "") return UNKNOWN;
  const found = /^(-?)(\d+)(\.\d+)?$/.exec(String(text));
  if (!found) return String(text);
  return found[1] + found[2].replace(/\B(?=(\d{3})+$)/g, ",") + (found[3] ?? "");
}

/** @param {number | null | undefined} value */
export function count(value) {
  return isKnown(value) ? decimal(Math.round(value).toString()) : UNKNOWN;
}

/** @param {number | null | undefined} value */
export function compact(value) {
  if (!isKnown(value)) return UNKNOWN;
  const size = Math.abs(value);
  for (const [unit, from] of /** @type {[string, number][]} */ ([["G", 1e9], ["M", 1e6], ["k", 1e3]])) {
    if (size >= from) return `${(value / from).toFixed(size >= from * 100 ? 0 : 1)} ${unit}`;
  }
  return size < 10 ? String(Number(value.toPrecision(3))) : Math.round(value).toString();
}

/** @param {number | null | undefined} perSecond */
export function rate(perSecond) {
  if (!isKnown(perSecond)) return UNKNOWN;
  if (perSecond > 0 && perSecond < 0.05) return "< 0.1";
  return perSecond > 0 && perSecond < 10 ? perSecond.toFixed(1) : count(perSecond);
}

/**
 * @param {number | null | undefined} share  0 to 1
 * @param {number} [digits]
 */
export function percent(share, digits = 1) {
  if (!isKnown(share)) return UNKNOWN;
  const scale = 10 ** digits;
  const rounded = Math.floor(share * 100 * scale + 1e-9) / scale;
  return `${rounded === 100 ? "100" : rounded.toFixed(digits)} %`;
}

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (!isKnown(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/**
 * The two largest units: "2 d 3 h", "4 m 10 s", "3.2 s", "40 ms".
 * @param {number | null | undefined} ms
 */
export function duration(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  const sign = ms < 0 ? "-" : "";
  const size = Math.abs(ms);
  if (size < 1000) return `${sign}${Math.round(size)} ms`;
  if (size < 10_000) return `${sign}${(Math.floor(size / 100) / 10).toFixed(1)} s`;
  const units = /** @type {[string, number][]} */ ([
    ["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000],
  ]);
  const first = units.findIndex(([, length]) => size >= length);
  const [unit, length] = units[first];
  const whole = Math.floor(size / length);
  const next = units[first + 1];
  const rest = next ? Math.floor((size - whole * length) / next[1]) : 0;
  return `${sign}${whole} ${unit}${rest ? ` ${rest} ${next[0]}` : ""}`;
}

/**
 * @param {number | null | undefined} ms
 * @param {number} now
 */
export function ago(ms, now) {
  if (!isKnown(ms)) return UNKNOWN;
  const past = now - ms;
  if (past < -1000) return `in ${coarse(-past)}`;
  return past < 1000 ? "now" : `${coarse(past)} ago`;
}

/**
 * Whole seconds below a minute, so that a counting text does not flicker between units.
 * @param {number} ms
 */
function coarse(ms) {
  return ms < 60_000 ? `${Math.floor(ms / 1000)} s` : duration(ms);
}

/** @param {number | null | undefined} ms */
export function utc(ms) {
  return isTime(ms) ? `${utcDay(ms)} ${utcTime(ms)}` : UNKNOWN;
}

/** @param {number | null | undefined} ms */
export function utcDay(ms) {
  return isTime(ms) ? new Date(ms).toISOString().slice(0, 10) : UNKNOWN;
}

/**
 * @param {number | null | undefined} ms
 * @param {boolean} [withMs]
 */
export function utcTime(ms, withMs = false) {
  return isTime(ms) ? new Date(ms).toISOString().slice(11, withMs ? 23 : 19) : UNKNOWN;
}

/**
 * The title of a time: the full time in UTC and the viewer's local time.
 * @param {number} ms
 */
export function timeTitle(ms) {
  return `${utc(ms)} UTC\n${local.format(ms)} (local)`;
}

// Made once: making one takes longer than all else that is written here.
const local = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});

/**
 * @param {number | null | undefined} ms
 * @param {string} [text]  what to show instead of the full time
 * @returns {HTMLTimeElement}
 */
export function time(ms, text) {
  const element = document.createElement("time");
  setTime(element, ms, text);
  return element;
}

/**
 * Writes a time into a <time> that is already there.
 * @param {HTMLTimeElement} element
 * @param {number | null | undefined} ms
 * @param {string} [text]
 */
export function setTime(element, ms, text) {
  const shown = text ?? utc(ms);
  if (element.textContent !== shown) element.textContent = shown;
  if (!isTime(ms)) {
    element.removeAttribute("datetime");
    element.removeAttribute("title");
    return;
  }
  const iso = new Date(ms).toISOString();
  if (element.dateTime === iso) return;
  element.dateTime = iso;
  element.title = timeTitle(ms);
}

/**
 * @param {number | null | undefined} value
 * @returns {value is number}
 */
function isKnown(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/**
 * @param {number | null | undefined} ms
 * @returns {ms is number}
 */
function isTime(ms) {
  return isKnown(ms) && Math.abs(ms) <= 8.64e15;
}
