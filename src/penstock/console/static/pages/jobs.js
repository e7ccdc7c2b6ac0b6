// @ts-check
// Jobs: what is fetched, how far each job is, what stops it; pause, resume and run. /jobs/ID is the
// history of one job (job.js).
//
// Hooks: [data-choice=jobs] button[data-value=all|running|waiting|failed|paused], [data-table=jobs]
// tr[data-job-id][data-state][data-status] td[data-field] job, market, state, progress (with
// [data-field=cursor] and [data-field=resumed]), rows, left, error, actions; button[data-action=pause|resume|run]; [data-field=jobs-running],
// jobs-waiting, jobs-failed, jobs-paused; [data-progress] in a progress cell has the share, or "".

import { compact, count, duration, percent, rate, setTime, time, UNKNOWN, utc } from "../format.js";
import { badge, setBadge } from "../parts/badge.js";
import { card, chooser, stat } from "../parts/card.js";
import { h, refresh, replace, setAttribute, setText } from "../parts/dom.js";
import { gauge } from "../parts/gauge.js";
import { actionButtons, jobActions } from "../parts/job-actions.js";
import { cursorOf, leftOf, reasonOf, shareOf, speedOf, stateOf } from "../parts/job-facts.js";
import { mountJob } from "../parts/job-history.js";
import { errorState, skeleton } from "../parts/states.js";
import { table } from "../parts/table.js";
import { path } from "../router.js";

export const title = (/** @type {Record<string, string>} */ params) => (params.id ? "Job" : "Jobs");
export const topics = ["jobs"];

const CHOICES = /** @type {Record<string, (job: any) => boolean>} */ ({
  all: () => true,
  running: (job) => job.state === "running",
  waiting: (job) => job.status === "active" && ["queued", "waiting_rate_limit"].includes(job.state),
  failed: (job) => job.state === "failed",
  paused: (job) => job.status === "paused",
});

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  return ctx.params.id ? mountJob(root, ctx) : mountList(root, ctx);
}

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
function mountList(root, ctx) {
  /** Documents by id: the newest version of each, whether pushed or answered. @type {Map<string, any>} */
  let jobs = new Map();
  const busy = new Set();
  let choice = ctx.query.get("state") ?? "all";
  if (!(choice in CHOICES)) choice = "all";

  const stats = {
    running: stat({ name: "jobs-running", title: "Running" }),
    waiting: stat({ name: "jobs-waiting", title: "Waiting", hint: "Queued, or waiting until the exchange's limits allow more" }),
    failed: stat({ name: "jobs-failed", title: "Failed", hint: "Given up; resume or run one to try again" }),
    paused: stat({ name: "jobs-paused", title: "Paused" }),
  };
  const chosen = chooser({
    label: "Which jobs", name: "jobs", value: choice,
    options: Object.keys(CHOICES).map((value) => ({ value, text: value[0].toUpperCase() + value.slice(1) })),
    change: (value) => {
      choice = value;
      ctx.setQuery({ state: value === "all" ? null : value });
      show();
    },
  });
  const act = jobActions(ctx, keep, (id, isBusy) => {
    if (isBusy) busy.add(id);
    else busy.delete(id);
    show();
  });
  const rows = jobTable(ctx, chosen.element, act, (id) => busy.has(id));
  const note = h("p", { class: "card-note", hidden: true });
  const waiting = h("div", {}, skeleton(8));
  const content = h("div", { class: "stack", hidden: true },
    h("div", { class: "stats" }, ...Object.values(stats).map((one) => one.element)),
    card({ title: "Jobs", name: "jobs" }, note, rows.element));
  root.append(waiting, content);

  /** @param {any} job  the store's answer: shown at once, and until a newer version is pushed */
  function keep(job) {
    const known = jobs.get(job.id);
    if (!known || known.version <= job.version) jobs.set(job.id, job);
    show();
  }

  function show() {
    rows.update([...jobs.values()].filter(CHOICES[choice]));
  }

  /** @param {any} summary */
  function showStats({ counts = {}, items = [], paused }) {
    const waits = (counts.queued ?? 0) + (counts.waiting_rate_limit ?? 0);
    const rests = paused ?? items.filter(CHOICES.paused).length;
    stats.running.update({ value: count(counts.running ?? 0), note: counts.running ? "by workers" : "none at this moment" });
    stats.waiting.update({ value: count(waits), note: counts.waiting_rate_limit ? `${count(counts.waiting_rate_limit)} for budget` : "" });
    stats.failed.update({ value: count(counts.failed ?? 0), note: counts.failed ? "look at the last error" : "none", kind: counts.failed ? "bad" : "" });
    stats.paused.update({ value: count(rests), note: rests ? "resume when you like" : "none" });
    const all = Object.values(counts).reduce((sum, one) => sum + Number(one), 0);
    note.hidden = all <= items.length;
    if (!note.hidden) setText(note, `The first ${count(items.length)} of ${count(all)} jobs: those that run, those that failed, then the others. All of them: penstock jobs list`);
  }

  return {
    /** @param {string} _topic @param {any} summary */
    update(_topic, summary) {
      waiting.hidden = true;
      content.hidden = false;
      const next = new Map();
      for (const job of summary.items) {
        const known = jobs.get(job.id);
        next.set(job.id, known && known.version > job.version ? known : job);
      }
      jobs = next;
      showStats(summary);
      show();
    },
    /** @param {string} _topic @param {string} words */
    failed(_topic, words) {
      if (!content.hidden) return ctx.toast(words, "bad");
      refresh(waiting, errorState({ title: "The jobs could not be read", text: `${words} The same by command: \`penstock jobs list\`` }));
    },
    unmount: () => rows.unmount(),
  };
}

/**
 * @param {import("../app.js").Context} ctx
 * @param {HTMLElement} chosen
 * @param {(job: any, action: import("../parts/job-actions.js").Action) => void} act
 * @param {(id: string) => boolean} isBusy
 */
function jobTable(ctx, chosen, act, isBusy) {
  return table({
    name: "jobs",
    label: "Jobs",
    key: (/** @type {any} */ job) => job.id,
    props: (job) => ({ "data-job-id": job.id, "data-state": job.state, "data-status": job.status }),
    tools: [chosen],
    rowHeight: 54,
    cards: true,
    open: (job) => ctx.navigate(path("jobs", job.id)),
    empty: {
      title: "No jobs here",
      text: "Make one, for example: `penstock jobs add binance ohlcv_backfill btc_usdt 1h --since 2025-01-01`, and let a worker run it: `penstock work`",
    },
    columns: [
      { name: "job", title: "Job", value: (job) => `${job.type} ${job.timeframe ?? ""}`, paint: (cell, job) => paintLines(cell, job.type, job.timeframe ?? "", path("jobs", job.id)) },
      { name: "market", title: "Market", value: (job) => `${job.symbol ?? ""} ${job.exchange_id}`, paint: (cell, job) => paintLines(cell, job.symbol ?? "all markets", job.exchange_id) },
      { name: "state", title: "State", value: (job) => stateOf(job).text, paint: paintState },
      { name: "progress", title: "Progress", wide: true, value: shareOf, text: (job) => `${percent(shareOf(job))} ${cursorOf(job)}`, hint: "Everything before the cursor is on disk", paint: paintProgress },
      { name: "rows", title: "Rows", numeric: true, value: (job) => job.progress?.rows, text: (job) => count(job.progress?.rows), hint: "Records it has stored", paint: paintRows },
      { name: "left", title: "Time left", hint: "Of a job that runs; of others, the time until it runs", numeric: true, value: (job) => speedOf(job).leftMs, text: (job) => leftOf(job, ctx.now()), paint: (cell, job) => paintLeft(cell, job, ctx.now()) },
      { name: "error", title: "Last error", wide: true, value: reasonOf, paint: paintError },
      { name: "actions", title: "", wide: true, sortable: false, value: () => null, text: () => "", paint: (cell, job) => paintActions(cell, job, act, isBusy(job.id)) },
    ],
  });
}

/** @param {HTMLTableCellElement} cell @param {string} first @param {string} second @param {string} [href] */
function paintLines(cell, first, second, href) {
  if (!cell.firstChild) cell.append(href ? h("a", { class: "row-link clip", href }) : h("strong", { class: "clip" }), h("span", { class: "second" }));
  setText(/** @type {Element} */ (cell.firstElementChild), first);
  setText(/** @type {Element} */ (cell.lastElementChild), second);
  setAttribute(cell, "title", `${first} ${second}`);
}

/** @param {HTMLTableCellElement} cell @param {any} job */
function paintRows(cell, job) {
  if (!cell.firstChild) cell.append(h("span", {}), h("span", { class: "second" }));
  setText(/** @type {Element} */ (cell.firstElementChild), count(job.progress?.rows));
  const speed = job.state === "running" ? speedOf(job).rowsPerS : null;
  setText(/** @type {Element} */ (cell.lastElementChild), speed === null ? "" : `${rate(speed)}/s`);
}

/** @param {HTMLTableCellElement} cell @param {any} job */
function paintState(cell, job) {
  if (!cell.firstChild) cell.append(badge("", "off"));
  const { text, kind } = stateOf(job);
  const by = job.lock?.locked_by;
  setBadge(/** @type {HTMLElement} */ (cell.firstElementChild), text, kind, by ? `Worker ${by}` : "");
}

/** @type {WeakMap<HTMLTableCellElement, ReturnType<typeof gauge>>} */
const bars = new WeakMap();

/** @param {HTMLTableCellElement} cell @param {any} job */
function paintProgress(cell, job) {
  let bar = bars.get(cell);
  if (!bar) {
    bar = gauge({ label: `Progress of ${job.type} ${job.symbol ?? job.exchange_id}` });
    bars.set(cell, bar);
    cell.append(h("div", { class: "progress" }, bar.element, h("span", {})),
      h("span", { class: "second" }, h("span", { "data-field": "cursor" }), h("span", { "data-field": "resumed" })));
  }
  const share = shareOf(job);
  const words = /** @type {Element} */ (cell.firstElementChild?.lastElementChild);
  bar.element.hidden = share === null;
  bar.update({ value: share, limit: 1, text: percent(share), kind: job.state === "failed" ? "bad" : job.status === "paused" ? "off" : "ok" });
  setText(words, share === null ? (job.schedule ? `every ${duration(job.schedule.interval_ms)}` : UNKNOWN) : percent(share));
  const [cursor, resumed] = /** @type {Element} */ (cell.lastElementChild).children;
  const times = job.progress?.resumptions ?? 0;
  setText(cursor, cursorOf(job));
  setText(resumed, times ? `resumed ${count(times)} ×` : "");
  setAttribute(/** @type {Element} */ (cell.firstElementChild), "data-progress", share === null ? "" : String(share));
}

/** @param {HTMLTableCellElement} cell @param {any} job @param {number} now */
function paintLeft(cell, job, now) {
  if (!(cell.firstChild instanceof HTMLTimeElement)) replace(cell, time(null, ""));
  const isDue = job.state !== "running" && job.status === "active";
  setTime(/** @type {HTMLTimeElement} */ (cell.firstChild), isDue ? job.next_run_at : null, leftOf(job, now));
}

/** @param {HTMLTableCellElement} cell @param {any} job */
function paintError(cell, job) {
  if (!cell.firstChild) cell.append(h("span", { class: "clip error-words" }));
  const words = reasonOf(job);
  setText(/** @type {Element} */ (cell.firstElementChild), words || UNKNOWN);
  setAttribute(cell, "title", words ? `${words}\n${compact(job.stats?.fail)} failures, the last run began ${utc(Date.parse(job.stats?.last_run_at))}` : null);
}

/**
 * @param {HTMLTableCellElement} cell
 * @param {any} job
 * @param {(job: any, action: import("../parts/job-actions.js").Action) => void} act
 * @param {boolean} isBusy
 */
function paintActions(cell, job, act, isBusy) {
  // Built anew only when it differs: a button that is being pressed must stay.
  const form = `${job.version} ${isBusy}`;
  if (cell.dataset.form === form) return;
  const isFocused = cell.contains(document.activeElement);
  cell.dataset.form = form;
  replace(cell, h("div", { class: "row-actions" }, ...actionButtons(job, act, isBusy)));
  if (isFocused) cell.querySelector("button")?.focus();
}
