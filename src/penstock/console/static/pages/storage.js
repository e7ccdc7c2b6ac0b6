// @ts-check
// Storage and backups: what takes how much, how fast it grows, and whether it could be restored.
//
// Hooks: [data-field=total], per_day, days_left, backup, next_backup, log; [data-disk] gauges;
// [data-table=datasets] tr[data-dataset=NAME] td[data-field] name, bytes, share, files, per_day;
// [data-table=backups] tr[data-backup=NAME][data-ok] td[data-field] name, at, bytes, verified, rehearsed, remote, result.

import { ago, bytes, count, duration, percent, setTime, time, UNKNOWN, utc } from "../format.js";
import { badge, setBadge } from "../parts/badge.js";
import { card, stat } from "../parts/card.js";
import { h, refresh, replace, setAttribute, setText } from "../parts/dom.js";
import { gauge } from "../parts/gauge.js";
import { emptyState, errorState, skeleton } from "../parts/states.js";
import { table } from "../parts/table.js";

export const title = "Storage and backups";
export const topics = ["storage"];

const REHEARSAL_OLD_MS = 30 * 86_400_000;
const LATE_MS = 3_600_000;

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  const stats = {
    total: stat({ name: "total", title: "Stored" }),
    perDay: stat({ name: "per_day", title: "Growth" }),
    days: stat({ name: "days_left", title: "Disk", hint: "Until it is full at the present growth" }),
    backup: stat({ name: "backup", title: "Last backup" }),
    next: stat({ name: "next_backup", title: "Next backup" }),
  };
  const disks = h("div", { class: "card-body stack" });
  let total = 0;
  const datasets = datasetTable(() => total);
  const backups = backupTable(ctx);
  const measured = h("span", {});
  const waiting = h("div", {}, skeleton(8));
  const content = h("div", { class: "stack", hidden: true },
    h("div", { class: "stats" }, ...Object.values(stats).map((one) => one.element)),
    h("div", { class: "grid storage-grid" },
      card({ title: "Data", sub: measured, name: "datasets" }, datasets.element),
      card({ title: "Disks", name: "disks" }, disks)),
    card({ title: "Backups", sub: "newest first", name: "backups" }, backups.element));
  root.append(waiting, content);

  /** @param {any[]} found @param {any} log */
  function showDisks(found, log) {
    if (!found.length) {
      refresh(disks, emptyState({ title: "Not measured yet", text: "A keeper measures disks and data every minute: `penstock keep`" }));
      return;
    }
    refresh(disks, ...found.map((disk) => {
      const bar = gauge({ label: `Disk of ${disk.path ?? "the data"}` });
      const share = disk.total_bytes ? disk.used_bytes / disk.total_bytes : null;
      bar.update({ value: disk.used_bytes, limit: disk.total_bytes, text: `${bytes(disk.used_bytes)} of ${bytes(disk.total_bytes)}` });
      return h("div", { class: "window", "data-disk": disk.path ?? "" },
        h("div", { class: "window-head" }, h("span", { class: "words" }, [disk.host, disk.path].filter(Boolean).join(" ") || "Data folder"), h("strong", {}, percent(share, 0))),
        bar.element,
        h("div", { class: "window-foot muted" }, h("span", {}, `${bytes(disk.free_bytes)} free of ${bytes(disk.total_bytes)}`), h("span", {}, daysText(disk.days_left))));
    }), h("dl", { class: "facts", "data-field": "log" },
      h("dt", {}, "Event log"), h("dd", {}, `${bytes(log?.bytes)}${log?.files ? ` in ${count(log.files)} files` : ""}`),
      log?.slots ? h("dt", {}, "Slots") : null, log?.slots ? h("dd", {}, count(log.slots)) : null));
  }

  /** @param {any} now @param {any[]} found */
  function showStats(now, found) {
    const growth = now.datasets.map((/** @type {any} */ one) => one.per_day_bytes).filter((/** @type {any} */ one) => one !== null);
    const isMeasured = now.log !== null || now.datasets.length > 0;
    stats.total.update({ value: isMeasured ? bytes(total + (now.log?.bytes ?? 0)) : UNKNOWN, note: isMeasured ? `${bytes(now.log?.bytes)} of it in the log` : "not measured yet" });
    stats.perDay.update({ value: growth.length ? bytes(growth.reduce((/** @type {number} */ sum, /** @type {number} */ one) => sum + one, 0)) : UNKNOWN, unit: growth.length ? "per day" : "", note: growth.length ? "" : "known after some hours" });
    const days = found[0]?.days_left ?? null;
    stats.days.update({ value: days === null ? UNKNOWN : days > 999 ? "> 999" : count(Math.floor(days)), unit: days === null ? "" : "days left", note: found[0] ? `${bytes(found[0].free_bytes)} free` : "not measured yet", kind: days === null ? "" : days < 3 ? "bad" : days < 14 ? "warning" : "" });
    const last = now.backups[0];
    stats.backup.update(last
      ? { value: last.ok ? coarse(ctx.now() - last.at_ms) : "failed", unit: last.ok ? "ago" : "", note: last.ok ? (last.verified_ms ? "verified" : "not verified yet") : last.message, kind: last.ok ? (last.verified_ms ? "" : "warning") : "bad" }
      : { value: "none", note: "penstock backup run", kind: "warning" });
    const left = now.next_backup_ms ? now.next_backup_ms - ctx.now() : null;
    stats.next.update({ value: left === null ? UNKNOWN : coarse(Math.abs(left)), unit: left === null ? "" : left < 0 ? "late" : "left", note: now.next_backup_ms ? `${utc(now.next_backup_ms)} UTC` : "set backup.folder", kind: left !== null && left < -LATE_MS ? "warning" : "" });
  }

  return {
    /** @param {string} _topic @param {any} now */
    update(_topic, now) {
      const found = now.disks ?? (now.disk ? [now.disk] : []);
      total = now.datasets.reduce((/** @type {number} */ sum, /** @type {any} */ one) => sum + one.bytes, 0);
      waiting.hidden = true;
      content.hidden = false;
      setText(measured, now.at_ms ? `measured ${ago(now.at_ms, ctx.now())}` : "");
      showStats(now, found);
      showDisks(found, now.log);
      datasets.update(now.datasets);
      backups.update(now.backups);
    },
    /** @param {string} _topic @param {string} words */
    failed(_topic, words) {
      if (!content.hidden) return ctx.toast(words, "bad");
      refresh(waiting, errorState({ title: "The storage could not be read", text: `${words} The same by command: \`penstock stats\`` }));
    },
    unmount() {
      datasets.unmount();
      backups.unmount();
    },
  };
}

/** @param {number} ms @returns {string}  the largest unit only: it has to fit a figure */
function coarse(ms) {
  return duration(Math.max(1000, Math.floor(ms / 1000) * 1000)).split(" ").slice(0, 2).join(" ");
}

/** @param {number | null | undefined} days */
function daysText(days) {
  if (days === null || days === undefined) return "growth is not known yet";
  return days > 999 ? "not full within years" : `full in ${count(Math.floor(days))} days`;
}

/** @type {WeakMap<HTMLTableCellElement, ReturnType<typeof gauge>>} */
const bars = new WeakMap();

/** @param {() => number} total */
function datasetTable(total) {
  /** @param {any} one */
  const shareOf = (one) => (total() ? one.bytes / total() : null);
  return table({
    name: "datasets",
    label: "Data",
    key: (/** @type {any} */ one) => one.name,
    props: (one) => ({ "data-dataset": one.name }),
    sort: { column: "bytes", direction: -1 },
    cards: true,
    empty: { title: "Nothing is sealed yet", text: "A keeper moves records from the log to the lake every five minutes: `penstock keep`" },
    columns: [
      { name: "name", title: "Dataset", value: (one) => one.name },
      { name: "bytes", title: "Size", numeric: true, value: (one) => one.bytes, text: (one) => bytes(one.bytes) },
      {
        name: "share", title: "Share", value: shareOf, text: (one) => percent(shareOf(one)), minor: true,
        paint: (cell, one) => {
          let bar = bars.get(cell);
          if (!bar) {
            bar = gauge({ label: `Share of ${one.name}` });
            bars.set(cell, bar);
            cell.append(h("div", { class: "progress" }, bar.element, h("span", {})));
          }
          bar.update({ value: shareOf(one), limit: 1, text: percent(shareOf(one)), kind: "info" });
          setText(/** @type {Element} */ (cell.firstElementChild?.lastElementChild), percent(shareOf(one)));
        },
      },
      { name: "files", title: "Files", numeric: true, value: (one) => one.files, text: (one) => count(one.files) },
      { name: "per_day", title: "Per day", numeric: true, value: (one) => one.per_day_bytes, text: (one) => bytes(one.per_day_bytes), hint: "How much it grows" },
    ],
  });
}

/** @param {import("../app.js").Context} ctx */
function backupTable(ctx) {
  /** @param {HTMLTableCellElement} cell @param {number | null} ms @param {string} none */
  const paintTime = (cell, ms, none) => {
    if (!(cell.firstChild instanceof HTMLTimeElement)) replace(cell, time(null, ""));
    setTime(/** @type {HTMLTimeElement} */ (cell.firstChild), ms, ms === null ? none : ago(ms, ctx.now()));
  };
  return table({
    name: "backups",
    label: "Backups",
    key: (/** @type {any} */ one) => `${one.host ?? ""} ${one.name}`,
    cards: true,
    props: (one) => ({ "data-backup": one.name, "data-ok": String(one.ok) }),
    empty: { title: "No backup yet", text: "Set `backup.folder` in `penstock.toml` to a folder on another disk, then a keeper makes one every three hours. Now: `penstock backup run`" },
    columns: [
      { name: "name", title: "Backup", value: (one) => one.name, paint: (cell, one) => (setText(cell, one.name), setAttribute(cell, "title", [one.host, one.folder].filter(Boolean).join(" ") || null)) },
      { name: "at", title: "Made", numeric: true, value: (one) => one.at_ms, text: (one) => utc(one.at_ms), paint: (cell, one) => paintTime(cell, one.at_ms, UNKNOWN) },
      { name: "bytes", title: "Size", numeric: true, value: (one) => one.bytes, text: (one) => bytes(one.bytes) },
      { name: "verified", title: "Verified", numeric: true, value: (one) => one.verified_ms, text: (one) => utc(one.verified_ms), hint: "When it was checked without a finding", paint: (cell, one) => paintTime(cell, one.verified_ms, "not yet") },
      {
        name: "rehearsed", title: "Restored in a rehearsal", numeric: true, value: (one) => one.rehearsed_ms, text: (one) => utc(one.rehearsed_ms),
        paint: (cell, one) => {
          paintTime(cell, one.rehearsed_ms, "never");
          setAttribute(cell, "data-kind", one.rehearsed_ms && ctx.now() - one.rehearsed_ms > REHEARSAL_OLD_MS ? "warning" : null);
        },
      },
      { name: "remote", title: "Copied to", minor: true, value: (one) => remoteOf(one), hint: "penstock backup sync copies backups to another place" },
      {
        name: "result", title: "Result", wide: true, value: (one) => String(one.ok), text: (one) => `${one.ok ? "good" : "bad"} ${one.message ?? ""}`,
        paint: (cell, one) => {
          if (!cell.firstChild) cell.append(badge("", "off"), h("span", { class: "words small after" }));
          setBadge(/** @type {HTMLElement} */ (cell.firstElementChild), one.ok ? "good" : "bad", one.ok ? "ok" : "bad");
          setText(/** @type {Element} */ (cell.lastElementChild), one.message ?? "");
        },
      },
    ],
  });
}

/** @param {any} one @returns {string} */
function remoteOf(one) {
  if (typeof one.remote === "string" && one.remote) return one.remote;
  return one.remote === true ? "a remote" : "";
}
