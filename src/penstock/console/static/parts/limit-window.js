// @ts-check
// One limit of an exchange: its gauge, our count beside the exchange's, and when it resets.
// Hooks: see limits.js.

import { ago, count, duration, UNKNOWN } from "../format.js";
import { countdown } from "./countdown.js";
import { h, setAttribute, setText } from "./dom.js";
import { gauge } from "./gauge.js";

const PERIODS = /** @type {Record<number, string>} */ ({ 1000: "second", 10_000: "10 seconds", 60_000: "minute", 300_000: "5 minutes", 3_600_000: "hour", 86_400_000: "day" });
/** From this difference on, our count and the exchange's are worth a look: another program uses the address. */
const APART = 0.1;

/** @param {any} one @returns {string}  "weight per minute", "requests (orders), burst of 5" */
export function nameOf(one) {
  const what = one.unit === "weight" ? "Weight" : one.unit === "request" ? "Requests" : one.window;
  const group = one.category ? ` (${one.category})` : "";
  if (!one.period_ms) return `${what}${group}`;
  const period = PERIODS[one.period_ms] ?? duration(one.period_ms);
  return one.kind === "paced" ? `${what}${group}, burst of ${count(one.limit)}` : `${what}${group} per ${period}`;
}

/** @param {string} exchange @param {any} first */
export function windowPart(exchange, first) {
  const bar = gauge({ label: `${exchange}, ${nameOf(first)}` });
  const used = h("strong", { "data-field": "used" });
  const limit = h("span", { "data-field": "limit" });
  const seen = h("span", { "data-field": "seen_used" });
  const reset = h("span", { "data-field": "reset" });
  const element = h("div", { class: "window", "data-window": first.window },
    h("div", { class: "window-head" }, h("span", {}, nameOf(first)), h("span", {}, used, " of ", limit)),
    bar.element,
    h("div", { class: "window-foot muted" }, seen, reset));
  let now = first;

  return {
    element,
    /** @param {any} next */
    update(next) {
      now = next;
      setText(used, count(next.used));
      setText(limit, count(next.limit));
      bar.update({ value: next.used, limit: next.limit, mark: next.seen_used });
    },
    /** @param {number} at */
    tick(at) {
      const isApart = now.seen_used !== null && Math.abs(now.seen_used - now.used) > now.limit * APART;
      const when = now.seen_ms === null ? "" : `, ${ago(now.seen_ms, at)}`;
      setText(seen, now.seen_used === null ? "the exchange reports no count" : `the exchange counts ${count(now.seen_used)}${when}`);
      setAttribute(seen, "data-kind", isApart ? "warning" : null);
      setAttribute(seen, "title", isApart ? "The counts differ: another program may use this address too. The higher one is obeyed." : null);
      const left = now.reset_ms === null ? null : now.reset_ms - at;
      const text = left === null ? UNKNOWN : left <= 0 ? "" : `${now.kind === "paced" ? "full again" : "resets"} in ${countdown(left)}`;
      setText(reset, text);
    },
  };
}
