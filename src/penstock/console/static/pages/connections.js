// @ts-check
// Connections: which streams are connected, since when, what was lost and why.
//
// Hooks: [data-field=open], messages_per_s, lost, unacked; [data-table=connections]
// tr[data-connection=PROCESS/NAME][data-state] td[data-field] exchange, connection, state, uptime, age,
// last_message, messages_per_s, streams, reconnects; [data-uptime] has the share of 24 hours;
// [data-list=reasons] li[data-reason]; dialog[data-dialog=connection] li[data-event].

import { ago, count, duration, percent, rate, setTime, time, UNKNOWN, utc } from "../format.js";
import { badge, setBadge } from "../parts/badge.js";
import { card, stat } from "../parts/card.js";
import { openDialog } from "../parts/dialog.js";
import { h, refresh, replace, setAttribute, setText } from "../parts/dom.js";
import { gauge } from "../parts/gauge.js";
import { emptyState, errorState, skeleton } from "../parts/states.js";
import { table } from "../parts/table.js";
import { shareUp, stretches, uptimeBar } from "../parts/uptime.js";

export const title = "Connections";
export const topics = ["connections"];

const DAY_MS = 86_400_000;
const SILENT_MS = 60_000;
/** A process keeps so many events of a connection. */
const MOST_EVENTS = 50;
const KINDS = /** @type {Record<string, import("../parts/badge.js").Kind>} */ ({ connected: "ok", connecting: "info", reconnecting: "bad", closing: "info", closed: "off" });

/** @param {any} one */
const isOpen = (one) => one.state === "connected" || one.state === "closing";
/** @param {any} one */
const keyOf = (one) => `${one.host ?? ""}/${one.process}/${one.exchange}/${one.connection}`;

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  /** @type {any[]} */
  let items = [];
  const stats = {
    open: stat({ name: "open", title: "Connected" }),
    messages: stat({ name: "messages_per_s", title: "Messages" }),
    lost: stat({ name: "lost", title: "Closed in 24 hours" }),
    unacked: stat({ name: "unacked", title: "Streams not acknowledged", hint: "Subscribed to, and the exchange has not said yes yet" }),
  };
  const rows = connectionTable(ctx);
  const reasons = h("ol", { class: "reason-list", "data-list": "reasons" });
  const waiting = h("div", {}, skeleton(8));
  const content = h("div", { class: "stack", hidden: true },
    h("div", { class: "stats" }, ...Object.values(stats).map((one) => one.element)),
    card({ title: "Connections", sub: "the bar is the last 24 hours", name: "connections" }, rows.element),
    card({ title: "Why connections were closed", sub: "last 24 hours", name: "reasons" }, h("div", { class: "card-body" }, reasons)));
  root.append(waiting, content);

  function showStats() {
    const open = items.filter(isOpen).length;
    const lost = items.flatMap((one) => closings(one, ctx.now()));
    const asked = items.reduce((sum, one) => sum + one.asked, 0);
    const missing = items.filter(isOpen).reduce((sum, one) => sum + Math.max(0, one.asked - (one.acked ?? one.asked)), 0);
    const known = items.filter((one) => one.messages_per_s !== null);
    stats.open.update({ value: `${count(open)} / ${count(items.length)}`, note: open === items.length ? "all of them" : "see the rows marked red", kind: open < items.length ? "warning" : "" });
    stats.messages.update({ value: known.length ? rate(known.reduce((sum, one) => sum + one.messages_per_s, 0)) : UNKNOWN, unit: "/s" });
    const isMore = items.some((one) => one.events.length >= MOST_EVENTS);
    stats.lost.update({ value: `${isMore ? "≥ " : ""}${count(lost.length)}`, note: lost.length ? "reasons are below" : "none" });
    stats.unacked.update({ value: count(missing), note: `of ${count(asked)} asked for`, kind: missing ? "warning" : "" });
    showReasons(lost);
  }

  /** @param {any[]} lost */
  function showReasons(lost) {
    const counted = /** @type {Map<string, number>} */ (new Map());
    for (const one of lost) counted.set(one.reason || "no reason given", (counted.get(one.reason || "no reason given") ?? 0) + 1);
    const sorted = [...counted].sort((a, b) => b[1] - a[1]).slice(0, 20);
    const form = JSON.stringify(sorted);
    if (reasons.dataset.form === form) return;
    reasons.dataset.form = form;
    if (!sorted.length) {
      replace(reasons, h("li", {}, emptyState({ title: "No connection was closed", text: "Connections that are lost or replaced are counted here, with the reason." })));
      return;
    }
    replace(reasons, ...sorted.map(([reason, times]) => {
      const bar = gauge({ label: reason });
      bar.update({ value: times, limit: lost.length, text: `${times} of ${lost.length}`, kind: "warning" });
      return h("li", { "data-reason": reason }, h("span", { class: "words" }, reason), bar.element, h("strong", { class: "num" }, count(times)));
    }));
  }

  return {
    /** @param {string} _topic @param {any} now */
    update(_topic, now) {
      items = now.items;
      waiting.hidden = true;
      content.hidden = false;
      rows.update(items);
      showStats();
    },
    /** @param {string} _topic @param {string} words */
    failed(_topic, words) {
      if (!content.hidden) return ctx.toast(words, "bad");
      refresh(waiting, errorState({ title: "The connections could not be read", text: `${words} The same by command: \`penstock status\`` }));
    },
    unmount: () => rows.unmount(),
  };
}

/** @param {any} one @param {number} now */
function closings(one, now) {
  return one.events.filter((/** @type {any} */ event) => event.what === "closed" && event.at_ms > now - DAY_MS);
}

/** @param {import("../app.js").Context} ctx */
function connectionTable(ctx) {
  return table({
    name: "connections",
    label: "Connections",
    key: keyOf,
    props: (/** @type {any} */ one) => ({ "data-connection": `${one.process}/${one.connection}`, "data-state": one.state }),
    open: (one) => showEvents(one, ctx),
    cards: true,
    empty: { title: "No connection yet", text: "A collector opens them: `penstock collect binance btc_usdt`. All processes of a machine: `penstock up`" },
    columns: [
      { name: "exchange", title: "Exchange", value: (one) => one.exchange },
      { name: "connection", title: "Connection", value: (one) => `${one.process} ${one.connection}`, hint: "The process, and its number in it", paint: paintConnection },
      {
        name: "state", title: "State", value: (one) => one.state,
        paint: (cell, one) => {
          if (!cell.firstChild) cell.append(badge("", "off"));
          setBadge(/** @type {HTMLElement} */ (cell.firstElementChild), one.state, KINDS[one.state] ?? "off", one.since_ms ? `since ${utc(one.since_ms)} UTC` : "");
        },
      },
      { name: "uptime", title: "24 hours", wide: true, value: (one) => shareUp(dayOf(one, ctx.now())), text: (one) => percent(shareUp(dayOf(one, ctx.now())), 2), paint: (cell, one) => paintUptime(cell, one, ctx.now()) },
      { name: "age", title: "Age", numeric: true, value: (one) => (isOpen(one) ? one.since_ms && -one.since_ms : null), text: (one) => (isOpen(one) ? age(one, ctx.now()) : UNKNOWN), hint: "Since it was opened; the bar is against the age at which the exchange closes it", paint: (cell, one) => paintAge(cell, one, ctx.now()) },
      {
        name: "last_message", title: "Last message", numeric: true, value: (one) => one.last_message_ms, text: (one) => ago(one.last_message_ms, ctx.now()),
        paint: (cell, one) => {
          if (!(cell.firstChild instanceof HTMLTimeElement)) replace(cell, time(null, ""));
          setTime(/** @type {HTMLTimeElement} */ (cell.firstChild), one.last_message_ms, ago(one.last_message_ms, ctx.now()));
          setAttribute(cell, "data-kind", isOpen(one) && one.last_message_ms && ctx.now() - one.last_message_ms > SILENT_MS ? "warning" : null);
        },
      },
      { name: "messages_per_s", title: "Messages/s", numeric: true, value: (one) => one.messages_per_s, text: (one) => rate(one.messages_per_s) },
      {
        name: "streams", title: "Acknowledged", numeric: true, value: (one) => one.acked, text: (one) => `${count(one.acked)} / ${count(one.asked)}`, hint: "Streams that the exchange acknowledged, of those asked for",
        paint: (cell, one) => {
          setText(cell, `${count(one.acked)} / ${count(one.asked)}`);
          setAttribute(cell, "data-kind", isOpen(one) && one.acked !== null && one.acked < one.asked ? "warning" : null);
        },
      },
      { name: "reconnects", title: "Lost", numeric: true, value: (one) => one.reconnects, text: (one) => count(one.reconnects), hint: "How often it was lost since its process started" },
    ],
  });
}

/** @param {HTMLTableCellElement} cell @param {any} one */
function paintConnection(cell, one) {
  if (!cell.firstChild) cell.append(h("span", { class: "clip" }));
  setText(/** @type {Element} */ (cell.firstElementChild), `${one.process} ${one.connection}`);
  setAttribute(cell, "title", one.host ? `${one.process} on ${one.host}` : one.process);
}

/** @param {any} one @param {number} now */
function dayOf(one, now) {
  // A process that was killed could not report that its connection closed: it did when it was last heard.
  const isCut = one.state === "closed" && one.since_ms !== null && one.events.at(-1)?.what === "opened";
  const events = isCut ? [...one.events, { at_ms: one.since_ms, what: "closed" }] : one.events;
  return stretches(events, isOpen(one), now - DAY_MS, now, one.events.length >= MOST_EVENTS);
}

/** @type {WeakMap<HTMLTableCellElement, ReturnType<typeof uptimeBar>>} */
const bars = new WeakMap();

/** @param {HTMLTableCellElement} cell @param {any} one @param {number} now */
function paintUptime(cell, one, now) {
  let bar = bars.get(cell);
  if (!bar) {
    bar = uptimeBar();
    bars.set(cell, bar);
    cell.append(h("div", { class: "uptime-cell" }, bar.element, h("span", {})));
  }
  const found = dayOf(one, now);
  const share = shareUp(found);
  const losses = found.filter((each) => each.up === false).length;
  bar.update(found, `Connected ${percent(share, 2)} of what is known of the last 24 hours, ${losses} interruptions`);
  setText(/** @type {Element} */ (cell.firstElementChild?.lastElementChild), percent(share, 2));
  setAttribute(/** @type {Element} */ (cell.firstElementChild), "data-uptime", share === null ? "" : share.toFixed(5));
}

/** @param {any} one @param {number} now @returns {string} */
function age(one, now) {
  if (!one.since_ms) return UNKNOWN;
  const text = duration(Math.floor(Math.max(0, now - one.since_ms) / 1000) * 1000);
  return one.limit_age_ms ? `${text} of ${duration(one.limit_age_ms)}` : text;
}

/** @type {WeakMap<HTMLTableCellElement, ReturnType<typeof gauge>>} */
const ages = new WeakMap();

/** @param {HTMLTableCellElement} cell @param {any} one @param {number} now */
function paintAge(cell, one, now) {
  let bar = ages.get(cell);
  if (!bar) {
    bar = gauge({ label: "Age against the exchange's limit" });
    ages.set(cell, bar);
    cell.append(h("div", { class: "age" }, h("span", {}), bar.element));
  }
  const isKnown = isOpen(one) && one.since_ms !== null;
  setText(/** @type {Element} */ (cell.firstElementChild?.firstElementChild), isKnown ? age(one, now) : UNKNOWN);
  bar.element.hidden = !isKnown || !one.limit_age_ms;
  if (!bar.element.hidden) bar.update({ value: now - one.since_ms, limit: one.limit_age_ms, text: age(one, now), kind: "off" });
}

/** @param {any} one @param {import("../app.js").Context} ctx */
function showEvents(one, ctx) {
  const events = [...one.events].reverse();
  openDialog({
    name: "connection",
    title: `${one.exchange} · ${one.process} ${one.connection}`,
    wide: true,
    body: [
      h("p", { class: "muted" }, `${one.state}; ${count(one.messages)} messages, lost ${count(one.reconnects)} times since its process started${one.host ? ` on ${one.host}` : ""}.`),
      events.length
        ? h("ol", { class: "event-list" }, ...events.map((event, i) => {
            const next = events[i - 1];
            const lasted = (next ? next.at_ms : ctx.now()) - event.at_ms;
            return h("li", { "data-event": event.what }, badge(event.what, event.what === "opened" ? "ok" : "bad"), time(event.at_ms),
              h("span", { class: "muted" }, `for ${duration(lasted)}`), event.reason ? h("span", { class: "words" }, event.reason) : null);
          }))
        : emptyState({ title: "Nothing happened in 24 hours", text: "It was opened before that, and has been open since." }),
    ],
  });
}
