// @ts-check
// The circuit breaker of an exchange: state, reason, next probe, changes and the switch.
// Hooks: see limits.js.

import { ago, setTime, time, utc } from "../format.js";
import { badge, setBadge } from "./badge.js";
import { countdown } from "./countdown.js";
import { h, replace, setAttribute, setText } from "./dom.js";

const STATES = /** @type {Record<string, {text: string, kind: import("./badge.js").Kind, means: string}>} */ ({
  closed: { text: "closed", kind: "ok", means: "Requests are sent." },
  half_open: { text: "half open", kind: "warning", means: "One request at a time tests the exchange." },
  open: { text: "open", kind: "bad", means: "Nothing is sent." },
});
const CHOICES = /** @type {{value: "automatic" | "open" | "closed", text: string}[]} */ ([
  { value: "automatic", text: "Automatic" }, { value: "open", text: "Keep open" }, { value: "closed", text: "Keep closed" },
]);

/**
 * @param {string} exchange
 * @param {import("../app.js").Context} ctx
 * @param {(exchange: string, force: "open" | "closed" | null) => void} order
 */
export function breakerPart(exchange, ctx, order) {
  /** @type {any} */
  let now = null;
  const shown = badge("", "off", { "data-field": "breaker" });
  const means = h("span", { class: "words" });
  const probe = h("span", { class: "muted" });
  const forced = badge("", "warning", { "data-field": "forced", hidden: true });
  const buttons = CHOICES.map((one) => h("button", {
    type: "button", "data-value": one.value, onclick: () => order(exchange, one.value === "automatic" ? null : one.value),
  }, one.text));
  const choice = h("div", { class: "tabs", role: "group", "aria-label": `Circuit breaker of ${exchange}`, "data-choice": "breaker", "data-control": true }, ...buttons);
  const changes = h("ol", { class: "event-list", "data-list": "transitions" });
  const summary = h("summary", {});
  const fold = h("details", { class: "fold" }, summary, changes);
  const element = h("div", { class: "breaker" },
    h("div", { class: "row" }, h("h3", {}, "Circuit breaker"), forced, h("span", { class: "push" }), choice),
    h("p", { class: "small" }, means, " ", probe), fold);

  /** @param {any[]} items  newest last */
  function showChanges(items) {
    const form = `${items.length} ${items.at(-1)?.at_ms}`;
    if (changes.dataset.form === form) return;
    changes.dataset.form = form;
    fold.hidden = !items.length;
    setText(summary, `Changes: ${items.length}, the last ${items.at(-1)?.to.replace("_", " ") ?? ""}`);
    replace(changes, ...[...items].reverse().map((one) => h("li", { "data-to": one.to },
      badge(one.to.replace("_", " "), STATES[one.to]?.kind ?? "warning"), time(one.at_ms, ago(one.at_ms, ctx.now())),
      one.reason ? h("span", { class: "words muted" }, one.reason) : null)));
  }

  return {
    element,
    badge: shown,
    /** @param {any} next */
    update(next) {
      now = next;
      const state = STATES[next.forced ?? next.state] ?? { text: next.state, kind: "off", means: "" };
      setBadge(shown, `breaker ${state.text}`, state.kind, state.means);
      setAttribute(shown, "data-state", next.state);
      forced.hidden = !next.forced;
      if (next.forced) setBadge(forced, `kept ${next.forced} by an operator`, "warning");
      setText(means, `${state.means}${next.reason && next.state !== "closed" ? ` It opened because: ${next.reason}` : ""}`);
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === (next.forced ?? "automatic")));
      showChanges(next.transitions ?? []);
    },
    /** @param {number} at */
    tick(at) {
      const left = now?.retry_at_ms && !now.forced ? now.retry_at_ms - at : null;
      setText(probe, left === null ? "" : left > 0 ? `The next probe may be sent in ${countdown(left)}.` : "The next probe may be sent now.");
      setAttribute(probe, "title", left === null ? null : utc(now.retry_at_ms));
      for (const line of changes.querySelectorAll("time")) setTime(line, Date.parse(line.dateTime), ago(Date.parse(line.dateTime), at));
    },
  };
}
