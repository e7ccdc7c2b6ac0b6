// @ts-check
// Which rows of a table are shown, and in which order. Pure.

/** @typedef {string | number | boolean | null | undefined} Value */

/**
 * Unknown values come last in both directions; text is compared with its numbers as numbers.
 * @param {Value} a
 * @param {Value} b
 * @param {1 | -1} direction
 */
export function compare(a, b, direction) {
  const isUnknownA = a === null || a === undefined || a === "";
  const isUnknownB = b === null || b === undefined || b === "";
  if (isUnknownA || isUnknownB) return Number(isUnknownA) - Number(isUnknownB);
  if (typeof a === "string" || typeof b === "string") {
    return direction * collator.compare(String(a), String(b));
  }
  return direction * (Number(a) - Number(b));
}

const collator = new Intl.Collator("en", { numeric: true });

/**
 * @template T
 * @param {T[]} rows
 * @param {(row: T) => Value} value
 * @param {1 | -1} direction
 * @returns {T[]}  a new list; rows that are equal keep their order
 */
export function sortRows(rows, value, direction) {
  return rows
    .map((row) => /** @type {[T, Value]} */ ([row, value(row)]))
    .sort((a, b) => compare(a[1], b[1], direction))
    .map(([row]) => row);
}

/**
 * @template T
 * @param {T[]} rows
 * @param {string} filter  words; a row is kept if it contains each, in any case
 * @param {(row: T) => string} text
 * @returns {T[]}
 */
export function filterRows(rows, filter, text) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return rows;
  return rows.filter((row) => {
    const whole = text(row).toLowerCase();
    return words.every((word) => whole.includes(word));
  });
}

/**
 * The rows to build for a scroll position, with some more on both sides.
 * @param {number} rows
 * @param {number} scrollTop
 * @param {number} height  of what is seen
 * @param {number} rowHeight
 * @param {number} [extra]
 * @returns {{first: number, last: number}}  last is exclusive
 */
export function windowOf(rows, scrollTop, height, rowHeight, extra = 8) {
  const first = Math.max(0, Math.min(rows, Math.floor(scrollTop / rowHeight)) - extra);
  const last = Math.min(rows, Math.ceil((scrollTop + height) / rowHeight) + extra);
  return { first, last: Math.max(first, last) };
}
