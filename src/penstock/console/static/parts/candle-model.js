// @ts-check
// Candles and the holes between them, before they are drawn. Pure.
//
// A candle is [at_ms, open, high, low, close, volume], all but the time as text, exactly as the
// server wrote them. Only what is drawn becomes a float.

/** @typedef {[number, string, string, string, string, string]} Candle */

export const INTERVALS = /** @type {Record<string, number>} */ ({
  "1s": 1000, "5s": 5000, "15s": 15_000, "1m": 60_000, "5m": 300_000, "15m": 900_000, "1h": 3_600_000, "1d": 86_400_000,
});

const MOST_POINTS = 4000;

/**
 * The times of a chart: each candle's, and those between that have none, so that a hole is as wide
 * as the time it lasted. Where that would be too many, the holes are left out.
 * @param {Candle[]} candles  oldest first
 * @param {number} step
 * @returns {number[]}
 */
export function timesOf(candles, step) {
  if (!candles.length) return [];
  const first = candles[0][0];
  const last = candles[candles.length - 1][0];
  const steps = Math.round((last - first) / step) + 1;
  if (steps > MOST_POINTS) return candles.map(([at]) => at);
  return Array.from({ length: steps }, (_, i) => first + i * step);
}

/**
 * The index of the first time that is not before `ms`.
 * @param {number[]} times  sorted
 * @param {number} ms
 */
export function lowerBound(times, ms) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < ms) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Which bars a hole covers: from the left edge of one to the right edge of another.
 * @param {number[]} times
 * @param {number} step
 * @param {{since_ms: number, until_ms: number | null}} gap
 * @returns {{from: number, to: number} | null}  positions between bars; null when it is not in view
 */
export function shadeOf(times, step, gap) {
  if (!times.length) return null;
  const end = times[times.length - 1] + step;
  const until = Math.min(gap.until_ms ?? end, end);
  if (until <= times[0] || gap.since_ms >= end) return null;
  const from = lowerBound(times, Math.floor(gap.since_ms / step) * step) - 0.5;
  const to = lowerBound(times, Math.ceil(until / step) * step) - 0.5;
  return { from, to: Math.max(to, from + 0.25) };
}

/**
 * The bands of all holes; those that overlap are one, since several holes may lie in one bar. An
 * open hole hides one that cannot be filled.
 * @template {{since_ms: number, until_ms: number | null, state: string}} G
 * @param {number[]} times
 * @param {number} step
 * @param {G[]} gaps
 * @returns {{from: number, to: number, state: string}[]}
 */
export function shadesOf(times, step, gaps) {
  /** @type {{from: number, to: number, state: string}[]} */
  const found = [];
  const ranges = gaps.flatMap((gap) => {
    const range = shadeOf(times, step, gap);
    return range ? [{ ...range, state: gap.state }] : [];
  });
  for (const range of ranges.sort((a, b) => a.from - b.from)) {
    const last = found[found.length - 1];
    if (!last || range.from >= last.to) found.push(range);
    else {
      last.to = Math.max(last.to, range.to);
      if (range.state === "open") last.state = "open";
    }
  }
  return found;
}

/** @param {string} text */
export function decimalsOf(text) {
  const dot = text.indexOf(".");
  return dot < 0 ? 0 : text.length - dot - 1;
}

/**
 * How many decimals the prices of candles need: zeros at the end are not counted.
 * @param {Candle[]} candles
 */
export function digitsOf(candles) {
  return needed(candles.slice(-50).flatMap((one) => one.slice(1, 5).map(String)));
}

/**
 * @param {string[]} numbers
 * @param {number} [least]
 * @returns {number}  the decimals with which all of them can be written
 */
export function needed(numbers, least = 2) {
  return numbers.reduce((most, text) => Math.max(most, decimalsOf(shorten(text, 0))), least);
}

/**
 * A decimal without the zeros at its end, down to some decimals: the same number.
 * @param {string} text
 * @param {number} digits
 */
export function shorten(text, digits) {
  let end = text.length;
  const least = text.length - decimalsOf(text) + digits;
  while (decimalsOf(text) && end > least && text[end - 1] === "0") end -= 1;
  return text.slice(0, text[end - 1] === "." ? end - 1 : end);
}

/**
 * Two lists of candles as one: later ones replace those of the same time.
 * @param {Candle[]} old
 * @param {Candle[]} fresh
 * @param {number} most
 * @returns {Candle[]}
 */
export function merge(old, fresh, most) {
  const byTime = new Map(old.map((one) => [one[0], one]));
  for (const one of fresh) byTime.set(one[0], one);
  return [...byTime.values()].sort((a, b) => a[0] - b[0]).slice(-most);
}
