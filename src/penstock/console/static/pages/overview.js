// @ts-check
// Overview: is everything collected, and if not, what is wrong.
//
// Hooks: [data-field] messages_per_s, lag_ms, gaps_open, days_left, backup, jobs, processes;
// [data-table=exchanges] tr[data-row=EXCHANGE][data-light] td[data-field] exchange, messages_per_s,
// lag_ms, gaps_open, connections, markets, last_data_ms, [data-why]; [data-card=alerts] li[data-alert=RULE].

import { ago, bytes, count, duration, percent, rate, setTime, time, UNKNOWN } from "../format.js";
import { badge, kindOf, setBadge } from "../parts/badge.js";
import { card, stat } from "../parts/card.js";
import { h, refresh, replace, setText } from "../parts/dom.js";
import { gauge } from "../parts/gauge.js";
import { sparkline } from "../parts/sparkline.js";
import { emptyState, errorState, skeleton } from "../parts/states.js";
import { table } from "../parts/table.js";
import { path } from "../router.js";

export const title = "Overview";
export const topics = ["overview"];

const LIGHTS = /** @type {Record<string, string>} */ ({ ok: "collecting", warning: "look at it", bad: "not collecting", off: "off" });
const BACKUP_OLD_MS = 36 * 3_600_000;

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  const small = sparkline({ label: "Messages per second over the last ten minutes", height: 52 });
  const stats = {
    messages: stat({ name: "messages_per_s", title: "Messages", extra: small.element }),
    lag: stat({ name: "lag_ms", title: "Slowest lag", hint: "From the exchange's time to ours, of the exchange with the longest" }),
    gaps: stat({ name: "gaps_open", title: "Open gaps", href: path("coverage") }),
    days: stat({ name: "days_left", title: "Disk", href: path("storage"), hint: "Until the disk is full at the present growth" }),
    backup: stat({ name: "backup", title: "Last backup", href: path("storage") }),
    jobs: stat({ name: "jobs", title: "Jobs running", href: path("jobs") }),
    processes: stat({ name: "processes", title: "Processes", href: path("processes") }),
  };
  const line = sparkline({ label: "Messages per second over the last ten minutes", height: 150, axis: true });
  const exchanges = exchangeTable(ctx);
  const alerts = h("ul", { class: "alerts", tabindex: 0, "aria-label": "Alerts" });
  const disk = diskPart();
  const content = h("div", { class: "stack", hidden: true },
    h("div", { class: "stats" }, ...Object.values(stats).map((one) => one.element)),
    h("div", { class: "grid overview-grid" },
      h("div", { class: "stack" },
        card({ title: "Exchanges", name: "exchanges" }, exchanges.element),
        card({ title: "Messages per second", sub: "last 10 minutes", name: "rates" }, h("div", { class: "card-body" }, line.element))),
      h("div", { class: "stack" },
        card({ title: "Alerts", sub: "newest first", name: "alerts" }, alerts),
        card({ title: "Disk and backup", name: "disk" }, disk.element))));
  const waiting = h("div", {}, skeleton(8));
  root.append(waiting, content);

  /** @param {any} now */
  function showStats(now) {
    const { totals, disk: space, backup } = now;
    const slowest = now.exchanges.reduce((/** @type {any} */ worst, /** @type {any} */ one) =>
      one.lag_ms !== null && (worst === null || one.lag_ms > worst.lag_ms) ? one : worst, null);
    const collecting = now.exchanges.filter((/** @type {any} */ one) => one.light === "ok" || one.light === "warning").length;
    stats.messages.update({
      value: rate(totals.messages_per_s), unit: "/s",
      note: `${collecting} of ${now.exchanges.length} exchanges collecting, ${count(totals.markets)} markets`,
    });
    stats.lag.update({
      value: duration(slowest?.lag_ms), note: slowest ? slowest.exchange : "no data yet",
      kind: slowest && slowest.lag_ms > 5000 ? "warning" : "",
    });
    stats.gaps.update({ value: count(totals.gaps_open), note: totals.gaps_open ? "see Coverage" : "nothing missing", kind: totals.gaps_open ? "warning" : "" });
    const days = space?.days_left ?? null;
    stats.days.update({
      value: days === null ? UNKNOWN : days > 999 ? "> 999" : count(Math.floor(days)), unit: days === null ? "" : "days left",
      note: space ? `${bytes(space.free_bytes)} free` : "not measured",
      kind: days === null ? "" : days < 3 ? "bad" : days < 14 ? "warning" : "",
    });
    stats.backup.update(backupStat(backup, ctx.now()));
    stats.jobs.update({ value: count(totals.jobs_running), note: totals.jobs_failed ? `${count(totals.jobs_failed)} failed` : "none failed", noteKind: totals.jobs_failed ? "bad" : "" });
    stats.processes.update({ value: count(totals.processes), note: totals.processes_failed ? `${count(totals.processes_failed)} failed` : totals.processes ? "all well" : "none running", noteKind: totals.processes_failed ? "bad" : "" });
  }

  /** @param {any[]} items */
  function showAlerts(items) {
    if (!items.length) {
      refresh(alerts, h("li", {}, emptyState({ title: "No alerts", text: "Rules are checked all the time; what they find is listed here." })));
      return;
    }
    refresh(alerts, ...items.map((one) =>
      h("li", { "data-alert": one.rule, class: one.ended_ms ? "is-over" : null },
        h("div", { class: "alert-head" },
          badge(one.ended_ms ? "over" : one.severity ?? "warning", one.ended_ms ? "off" : severity(one.severity)),
          h("strong", {}, one.subject || one.rule),
          h("span", { class: "muted" }, time(one.since_ms, ago(one.since_ms, ctx.now())))),
        h("p", {}, one.message),
        h("p", { class: "muted small" }, one.rule, one.ended_ms ? ` · lasted ${duration(one.ended_ms - one.since_ms)}` : ""))));
  }

  return {
    /** @param {string} _topic @param {any} now */
    update(_topic, now) {
      waiting.hidden = true;
      content.hidden = false;
      showStats(now);
      exchanges.update(now.exchanges);
      line.update(now.rates);
      small.update(now.rates);
      showAlerts(now.alerts ?? []);
      disk.update(now, ctx.now());
    },
    /** @param {string} _topic @param {string} words */
    failed(_topic, words) {
      if (!content.hidden) return ctx.toast(words, "bad");
      refresh(waiting, errorState({ title: "The overview could not be read", text: words }));
    },
    unmount() {
      line.unmount();
      small.unmount();
      exchanges.unmount();
    },
  };
}

/** @param {string | null | undefined} word */
function severity(word) {
  return word === "info" ? "info" : kindOf(word) === "bad" ? "bad" : "warning";
}

/** @param {any} backup @param {number} now */
function backupStat(backup, now) {
  if (!backup) return { value: "none", note: "not backed up", kind: "warning" };
  const age = now - backup.at_ms;
  if (!backup.ok) return { value: "failed", note: backup.message ?? "", kind: "bad" };
  return {
    value: duration(age < 60_000 ? 0 : age).split(" ").slice(0, 2).join(" "), unit: "ago",
    note: backup.verified ? "verified" : "not verified yet", kind: age > BACKUP_OLD_MS ? "warning" : "",
  };
}

/** @param {import("../app.js").Context} ctx */
function exchangeTable(ctx) {
  return table({
    name: "exchanges",
    label: "Exchanges",
    filter: false,
    cards: true,
    key: (/** @type {any} */ one) => one.exchange,
    props: (one) => ({ "data-light": one.light }),
    sort: { column: "exchange", direction: 1 },
    empty: {
      title: "Nothing is collected yet",
      text: "Start `penstock demo` for a simulated exchange, or `penstock init` and `penstock up` for a real one.",
    },
    columns: [
      {
        name: "exchange", title: "Exchange", value: (one) => one.exchange,
        text: (one) => `${one.exchange} ${one.why.join(" ")}`,
        paint: paintExchange,
      },
      { name: "messages_per_s", title: "Messages/s", numeric: true, value: (one) => one.messages_per_s, text: (one) => rate(one.messages_per_s) },
      { name: "lag_ms", title: "Lag", numeric: true, value: (one) => one.lag_ms, text: (one) => duration(one.lag_ms) },
      { name: "gaps_open", title: "Open gaps", numeric: true, value: (one) => one.gaps_open, text: (one) => count(one.gaps_open) },
      {
        name: "connections", title: "Connections", numeric: true, value: (one) => one.connections_up,
        text: (one) => `${count(one.connections_up)} / ${count(one.connections)}`,
      },
      { name: "markets", title: "Markets", numeric: true, minor: true, value: (one) => one.markets, text: (one) => count(one.markets) },
      {
        name: "last_data_ms", title: "Last data", numeric: true, value: (one) => one.last_data_ms,
        paint: (cell, one) => paintAge(cell, one.last_data_ms, ctx.now()),
      },
    ],
  });
}

/** @param {HTMLTableCellElement} cell @param {any} one */
function paintExchange(cell, one) {
  if (!cell.firstChild) {
    cell.append(
      h("div", { class: "exchange" }, h("strong", {}), badge("", "off", { "data-light-badge": true })),
      h("p", { class: "why", "data-why": one.exchange }));
  }
  const [head, why] = /** @type {[HTMLElement, HTMLElement]} */ ([...cell.children]);
  setText(head.children[0], one.exchange);
  setBadge(/** @type {HTMLElement} */ (head.children[1]), LIGHTS[one.light] ?? one.light, one.light);
  const reasons = [...one.why];
  if (one.breaker === "open") reasons.push("requests are stopped by the breaker");
  setText(why, reasons.join(" · "));
  why.hidden = !reasons.length;
}

/** @param {HTMLTableCellElement} cell @param {number | null} ms @param {number} now */
function paintAge(cell, ms, now) {
  if (!(cell.firstChild instanceof HTMLTimeElement)) replace(cell, time(ms));
  setTime(/** @type {HTMLTimeElement} */ (cell.firstChild), ms, ago(ms, now));
}

function diskPart() {
  const bar = gauge({ label: "Disk used" });
  const facts = h("dl", { class: "facts" });
  const element = h("div", { class: "card-body stack" }, bar.element, facts);
  return {
    element,
    /** @param {any} now @param {number} at */
    update({ disk, backup }, at) {
      bar.update({ value: disk?.used_bytes ?? null, limit: disk?.total_bytes ?? null, text: `${bytes(disk?.used_bytes)} of ${bytes(disk?.total_bytes)}` });
      const share = disk?.total_bytes ? disk.used_bytes / disk.total_bytes : null;
      refresh(facts,
        ...fact("Used", disk ? `${bytes(disk.used_bytes)} of ${bytes(disk.total_bytes)} (${percent(share, 0)})` : "not measured yet"),
        ...fact("Full", disk?.days_left === null || disk?.days_left === undefined ? "not known yet" : disk.days_left > 999 ? "not within years" : `in about ${count(Math.floor(disk.days_left))} days`),
        ...fact("Last backup", backup ? time(backup.at_ms) : h("span", {}, "none: ", h("code", {}, "penstock backup run"))),
        ...(backup ? fact("Result", badge(backup.ok ? (backup.verified ? "verified" : "not verified") : "failed", backup.ok ? (backup.verified ? "ok" : "warning") : "bad")) : []),
        ...fact("Restore tried", backup?.rehearsed_at_ms ? time(backup.rehearsed_at_ms, ago(backup.rehearsed_at_ms, at)) : "never"),
        ...(backup?.message ? fact("Said", backup.message) : []));
    },
  };
}

/** @param {string} name @param {Node | string} value */
function fact(name, value) {
  return [h("dt", {}, name), h("dd", {}, value)];
}
