// @ts-check
// Limits: how much of each exchange's limits is used, what stops requests, and the circuit breakers.
//
// Hooks: [data-exchange=NAME] cards; [data-window=NAME] gauges with [data-field] used, limit, seen_used, reset;
// [data-field=waiting]; [data-stop] the exchange's stop with [data-field=blocked]; [data-field=breaker],
// [data-field=forced]; [data-choice=breaker] button[data-value=automatic|open|closed]; dialog
// [data-dialog=breaker] button[data-confirm=breaker]; [data-list=refusals] li[data-status],
// [data-list=transitions] li[data-to].

import { ago, count, duration, setTime, time, utc } from "../format.js";
import { badge } from "../parts/badge.js";
import { breakerPart } from "../parts/breaker.js";
import { countdown } from "../parts/countdown.js";
import { confirmDialog } from "../parts/dialog.js";
import { h, icon, refresh, replace, setAttribute, setText } from "../parts/dom.js";
import { windowPart } from "../parts/limit-window.js";
import { emptyState, errorState, skeleton } from "../parts/states.js";

export const title = "Limits";
export const topics = ["limits"];

const TICK_MS = 500;

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  /** @type {Map<string, ReturnType<typeof exchangePart>>} */
  const parts = new Map();
  let words = "";
  const field = h("input", {
    type: "search", class: "input", "data-filter": true, placeholder: "Filter exchanges", "aria-label": "Filter exchanges", autocomplete: "off",
    oninput: () => {
      words = field.value.toLowerCase().trim();
      choose();
    },
  });
  const bar = h("div", { class: "row page-bar", hidden: true }, h("span", { class: "search" }, icon("search"), field),
    h("span", { class: "muted gauge-legend" }, h("span", { class: "gauge-key" }), "our count", h("span", { class: "gauge-key is-mark" }), "the exchange's own count"));
  const list = h("div", { class: "limits-grid" });
  const waiting = h("div", {}, skeleton(8));
  root.append(waiting, bar, list);

  function choose() {
    for (const [exchange, part] of parts) part.element.hidden = !exchange.toLowerCase().includes(words);
  }

  /** @param {string} exchange @param {"open" | "closed" | null} force */
  async function order(exchange, force) {
    const told = ORDERS[force ?? "automatic"];
    const isSure = await confirmDialog({
      name: "breaker", title: told.title(exchange), text: told.text, action: told.action, danger: force !== null,
    });
    if (!isSure) return;
    try {
      const now = await ctx.api.send("POST", `/connectors/${encodeURIComponent(exchange)}/breaker`, { force });
      ctx.toast(`${exchange}: the breaker is ${now.forced ? `kept ${now.forced}` : `automatic, and ${now.state}`}.`, "ok");
      parts.get(exchange)?.answered(now);
    } catch (error) {
      ctx.toast(`${exchange}: ${error instanceof Error ? error.message : error}`, "bad");
    }
  }

  const tick = setInterval(() => {
    for (const part of parts.values()) part.tick();
  }, TICK_MS);

  return {
    /** @param {string} _topic @param {any} now */
    update(_topic, now) {
      const exchanges = now.exchanges ?? [];
      waiting.hidden = exchanges.length > 0;
      bar.hidden = exchanges.length < 2;
      if (!exchanges.length) {
        refresh(waiting, emptyState({ title: "No exchange has a connector yet", text: "One is made when a process first sends a request, or by hand: `penstock connectors add binance`" }));
      }
      const known = new Set();
      for (const one of exchanges) {
        known.add(one.exchange);
        let part = parts.get(one.exchange);
        if (!part) {
          part = exchangePart(one.exchange, ctx, order);
          parts.set(one.exchange, part);
          list.append(part.element);
        }
        part.update(one, now.items.filter((/** @type {any} */ item) => item.exchange === one.exchange));
      }
      for (const [exchange, part] of parts) {
        if (known.has(exchange)) continue;
        part.element.remove();
        parts.delete(exchange);
      }
      choose();
    },
    /** @param {string} _topic @param {string} problem */
    failed(_topic, problem) {
      if (parts.size) return ctx.toast(problem, "bad");
      refresh(waiting, errorState({ title: "The limits could not be read", text: `${problem} The same by command: \`penstock connectors list\`` }));
    },
    unmount: () => clearInterval(tick),
  };
}

const ORDERS = {
  open: {
    title: (/** @type {string} */ exchange) => `Stop all requests to ${exchange}?`,
    text: "Every process of the fleet stops sending requests to this exchange until you switch it back. Streams that are connected go on; jobs wait.",
    action: "Keep it open",
  },
  closed: {
    title: (/** @type {string} */ exchange) => `Send to ${exchange} whatever happens?`,
    text: "Requests are sent even if all of them fail. The exchange may ban this address. Its own limits and stops are still obeyed.",
    action: "Keep it closed",
  },
  automatic: {
    title: (/** @type {string} */ exchange) => `Let the breaker of ${exchange} decide again?`,
    text: "It opens when requests fail in a row, and closes again after successful probes.",
    action: "Make it automatic",
  },
};

/**
 * @param {string} exchange
 * @param {import("../app.js").Context} ctx
 * @param {(exchange: string, force: "open" | "closed" | null) => void} order
 */
function exchangePart(exchange, ctx, order) {
  /** @type {Map<string, ReturnType<typeof windowPart>>} */
  const windows = new Map();
  /** @type {any} */
  let now = null;
  const id = `limits-${exchange}`;
  const paused = badge("paused", "warning", { hidden: true, title: "An operator stopped all requests: penstock connectors resume" });
  const waits = h("span", { class: "sub", "data-field": "waiting" });
  const until = h("strong", { "data-field": "blocked" });
  const why = h("p", { class: "words small" });
  const stop = h("div", { class: "notice is-bad", "data-stop": exchange, hidden: true },
    h("p", {}, icon("warning"), "The exchange ordered a stop. Nothing is sent for ", until, "."), why);
  const gauges = h("div", { class: "stack" });
  const breaker = breakerPart(exchange, ctx, order);
  const refused = h("ol", { class: "event-list", "data-list": "refusals" });
  const refusals = h("details", { class: "fold", hidden: true }, h("summary", {}, h("span", { "data-field": "refusals" })), refused);
  const element = h("section", { class: "card", "data-exchange": exchange, "aria-labelledby": id },
    h("header", { class: "card-head" }, h("h2", { id }, exchange, waits), h("div", { class: "row" }, paused, breaker.badge)),
    h("div", { class: "card-body stack" }, stop, gauges, breaker.element, refusals));

  function tick() {
    if (!now) return;
    const at = ctx.now();
    const isBlocked = now.blocked_until_ms !== null && now.blocked_until_ms > at;
    stop.hidden = !isBlocked;
    if (isBlocked) {
      setText(until, countdown(now.blocked_until_ms - at));
      setAttribute(until, "title", `until ${utc(now.blocked_until_ms)} UTC`);
    }
    for (const part of windows.values()) part.tick(at);
    breaker.tick(at);
    for (const line of refused.querySelectorAll("time")) setTime(line, Date.parse(line.dateTime), ago(Date.parse(line.dateTime), at));
  }

  /** @param {any[]} items  newest last */
  function showRefusals(items) {
    const form = `${items.length} ${items.at(-1)?.at_ms}`;
    if (refused.dataset.form === form) return;
    refused.dataset.form = form;
    refusals.hidden = !items.length;
    setText(/** @type {Element} */ (refusals.querySelector("[data-field=refusals]")), `Requests refused: ${count(items.length)}${items.length >= 50 ? " (the latest)" : ""}`);
    replace(refused, ...[...items].reverse().map((one) => h("li", { "data-status": one.status },
      badge(String(one.status), one.status === 429 ? "warning" : "bad"), time(one.at_ms, ago(one.at_ms, ctx.now())),
      h("span", { class: "muted" }, `${one.process || "a process"}${one.retry_after_s ? `, told to wait ${duration(one.retry_after_s * 1000)}` : ""}`))));
  }

  return {
    element,
    tick,
    /** @param {any} answer  a breaker as the API shows it */
    answered(answer) {
      breaker.update({ state: answer.state, forced: answer.forced, reason: answer.reason, retry_at_ms: answer.retry_at, transitions: answer.transitions.map((/** @type {any} */ one) => ({ ...one, at_ms: Date.parse(one.at) })) });
    },
    /** @param {any} next @param {any[]} items */
    update(next, items) {
      now = next;
      paused.hidden = next.status !== "paused";
      setText(waits, next.waiting ? `${count(next.waiting)} ${next.waiting === 1 ? "request waits" : "requests wait"}` : "no request waits");
      setAttribute(waits, "data-kind", next.waiting ? "warning" : null);
      const by = next.blocked_by;
      setText(why, by ? `${by.status} on ${by.path}${by.words ? `: ${by.words}` : ""}` : "");
      const known = new Set(items.map((one) => one.window));
      for (const one of items) {
        let part = windows.get(one.window);
        if (!part) {
          part = windowPart(exchange, one);
          windows.set(one.window, part);
          gauges.append(part.element);
        }
        part.update(one);
      }
      for (const [name, part] of windows) {
        if (known.has(name)) continue;
        part.element.remove();
        windows.delete(name);
      }
      breaker.update(next.breaker);
      showRefusals(next.refusals ?? []);
      tick();
    },
  };
}
