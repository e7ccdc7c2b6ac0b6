// @ts-check
// When something was up over a time: a bar of stretches, and its share.
//
//   stretches(events, isUp, from, until)    pure: [{from, until, up: true | false | null}], null is unknown
//   shareUp(stretches)                      of the time that is known; null if none is
//   const bar = uptimeBar();  bar.update(stretches, label);  bar.element     an SVG that follows the theme
// `events` are {at_ms, what: "opened" | "closed"}, oldest first, `isUp` is the state now.

import { setAttribute, svg } from "./dom.js";

const WIDE = 1000;
/** A shorter stretch would not be seen: what is known is shown at least this wide. */
const LEAST = 4;

/** @typedef {{from: number, until: number, up: boolean | null}} Stretch */

/**
 * @param {{at_ms: number, what: string}[]} events
 * @param {boolean} isUp
 * @param {number} from
 * @param {number} until
 * @param {boolean} [isCut]  there were more events, before these
 * @returns {Stretch[]}
 */
export function stretches(events, isUp, from, until, isCut = false) {
  const inside = events.filter((one) => one.at_ms > from && one.at_ms < until);
  const before = events.filter((one) => one.at_ms <= from).at(-1);
  // What closed had been open. What opened first may have been closed, or not there at all.
  const wasUp = inside.length ? inside[0].what === "closed" && !isCut : isUp;
  const first = before ? before.what === "opened" : wasUp || null;
  /** @type {Stretch[]} */
  const found = [];
  let at = from;
  let up = first;
  for (const one of inside) {
    if (one.at_ms > at) found.push({ from: at, until: one.at_ms, up });
    at = one.at_ms;
    up = one.what === "opened";
  }
  if (until > at) found.push({ from: at, until, up: inside.length ? isUp : up });
  return found;
}

/** @param {Stretch[]} found @returns {number | null} */
export function shareUp(found) {
  let known = 0;
  let up = 0;
  for (const one of found) {
    if (one.up === null) continue;
    known += one.until - one.from;
    if (one.up) up += one.until - one.from;
  }
  return known ? up / known : null;
}

export function uptimeBar() {
  const paths = { true: svg("path", { class: "is-up" }), false: svg("path", { class: "is-down" }), null: svg("path", { class: "is-unknown" }) };
  const element = svg("svg", { class: "uptime", viewBox: `0 0 ${WIDE} 10`, preserveAspectRatio: "none", role: "img" }, paths.null, paths.true, paths.false);
  const title = svg("title");
  element.prepend(title);
  return {
    element,
    /** @param {Stretch[]} found @param {string} label */
    update(found, label) {
      const from = found[0]?.from ?? 0;
      const span = Math.max(1, (found.at(-1)?.until ?? 1) - from);
      const lines = { true: "", false: "", null: "" };
      for (const one of found) {
        const width = Math.max(one.up === null ? 0 : LEAST, ((one.until - one.from) / span) * WIDE);
        const left = Math.min(WIDE - width, ((one.from - from) / span) * WIDE);
        lines[/** @type {"true" | "false" | "null"} */ (String(one.up))] += `M${left.toFixed(1)} 0h${width.toFixed(1)}v10h-${width.toFixed(1)}z`;
      }
      for (const key of /** @type {const} */ (["true", "false", "null"])) setAttribute(paths[key], "d", lines[key]);
      setAttribute(element, "aria-label", label);
      if (title.textContent !== label) title.textContent = label;
    },
  };
}
