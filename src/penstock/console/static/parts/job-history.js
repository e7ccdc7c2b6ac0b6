// @ts-check
// One job: where it stands, and its history as a time line.
//
// Hooks: [data-job-id] on the page, [data-field] state, progress, rows, rate, left, resumed, runs, cursor,
// worker, error; button[data-action]; [data-card=history] li[data-event=WHAT].

import { ago, count, duration, percent, rate, time, UNKNOWN, utc } from "../format.js";
import { path } from "../router.js";
import { badge, setBadge } from "./badge.js";
import { card, stat } from "./card.js";
import { h, refresh, replace, setAttribute, setText } from "./dom.js";
import { gauge } from "./gauge.js";
import { actionButtons, jobActions } from "./job-actions.js";
import { cursorOf, eventOf, leftOf, reasonOf, shareOf, speedOf, stateOf } from "./job-facts.js";
import { emptyState, errorState, skeleton } from "./states.js";

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mountJob(root, ctx) {
  const id = ctx.params.id;
  /** @type {any} */
  let job = null;
  let isBusy = false;
  let isAsking = false;
  let ended = false;

  const stats = {
    rows: stat({ name: "rows", title: "Rows stored" }),
    left: stat({ name: "left", title: "Time left, or until it runs" }),
    resumed: stat({ name: "resumed", title: "Resumed", hint: "How often it continued in the middle" }),
    runs: stat({ name: "runs", title: "Runs" }),
  };
  const bar = gauge({ label: "Progress" });
  const share = h("strong", { "data-field": "progress" });
  const state = badge("", "off", { "data-field": "state" });
  const name = h("h2", { class: "job-name" });
  const actions = h("div", { class: "row" });
  const error = h("p", { class: "notice is-bad", "data-field": "error", hidden: true });
  const facts = h("dl", { class: "facts" });
  const events = h("ol", { class: "timeline" });
  const waiting = h("div", {}, skeleton(8));
  const content = h("div", { class: "stack", hidden: true, "data-job-id": id },
    h("section", { class: "card" },
      h("div", { class: "card-head" }, h("div", { class: "row" }, name, state), actions),
      h("div", { class: "card-body stack" }, h("div", { class: "progress is-large" }, bar.element, share), error)),
    h("div", { class: "stats" }, ...Object.values(stats).map((one) => one.element)),
    h("div", { class: "grid job-grid" },
      card({ title: "History", sub: "the latest 50 events, newest first", name: "history" }, events),
      card({ title: "Facts", name: "facts" }, h("div", { class: "card-body" }, facts))));
  root.append(h("p", { class: "back" }, h("a", { href: path("jobs") }, "← All jobs")), waiting, content);

  const act = jobActions(ctx, (now) => {
    if (now.version >= (job?.version ?? 0)) show(now);
    void ask();
  }, (_, busy) => {
    isBusy = busy;
    if (job) showActions();
  });

  function showActions() {
    const form = `${job.version} ${isBusy}`;
    if (actions.dataset.form === form) return;
    actions.dataset.form = form;
    replace(actions, ...actionButtons(job, act, isBusy));
  }

  /** @param {any} now */
  function show(now) {
    job = now;
    waiting.hidden = true;
    content.hidden = false;
    setText(name, [job.type, job.exchange_id, job.symbol, job.timeframe].filter(Boolean).join(" "));
    const { text, kind } = stateOf(job);
    setBadge(state, text, kind);
    const done = shareOf(job);
    bar.element.hidden = done === null;
    bar.update({ value: done, limit: 1, text: percent(done), kind: job.state === "failed" ? "bad" : job.status === "paused" ? "off" : "ok" });
    setText(share, done === null ? (job.schedule ? `runs every ${duration(job.schedule.interval_ms)} and has no end` : "its length is not known yet") : percent(done));
    const why = reasonOf(job);
    error.hidden = !why;
    setText(error, job.state === "failed" ? why : `The last error: ${why}`);
    setAttribute(error, "class", `notice ${job.state === "failed" ? "is-bad" : "is-warning"}`);
    const speed = speedOf(job);
    stats.rows.update({ value: count(job.progress?.rows), note: speed.rowsPerS ? `${rate(speed.rowsPerS)} rows/s since it began or continued` : "" });
    stats.left.update({ value: leftOf(job, ctx.now()), note: speed.leftMs && job.state === "running" ? `until ${utc(ctx.now() + speed.leftMs)} UTC` : "" });
    stats.resumed.update({ value: `${count(job.progress?.resumptions ?? 0)} ×`, note: job.progress?.resumed_at ? `at ${utc(job.progress.resumed_at)} UTC` : "it ran without an interruption" });
    stats.runs.update({ value: count(job.stats?.runs), note: `${count(job.stats?.success)} ended well, ${count(job.stats?.fail)} failed`, kind: job.state === "failed" ? "bad" : "" });
    showFacts();
    showActions();
  }

  function showFacts() {
    const last = Date.parse(job.stats?.last_success_at ?? "");
    const shown = /** @type {[string, string, Node | string][]} */ ([
      ["id", "Id", h("code", {}, job.id)],
      ["cursor", "Cursor", cursorOf(job) || UNKNOWN],
      ["worker", "Worker", job.lock?.locked_by ?? "none"],
      ["target", "Target", h("code", {}, job.target_key ?? "")],
      ["priority", "Priority", `${job.priority}${job.claim_priority !== null && job.claim_priority < 0 ? ", before all others" : ""}`],
      ["attempts", "Failures since the last page", count(job.attempts)],
      ["success", "Last success", Number.isNaN(last) ? "never" : time(last)],
      ["origin", "Made by", job.origin || "a user"],
      ["created", "Created", time(Date.parse(job.created_at))],
      ["updated", "Changed", time(Date.parse(job.updated_at), ago(Date.parse(job.updated_at), ctx.now()))],
      ["command", "By command", h("code", {}, `penstock jobs show ${job.id}`)],
    ]);
    refresh(facts, ...shown.flatMap(([field, title, value]) => [h("dt", {}, title), h("dd", { "data-field": field }, value)]));
  }

  /** @param {any[]} found  oldest first */
  function showEvents(found) {
    if (!found.length) {
      replace(events, emptyState({ title: "No events yet", text: "They appear when a worker begins the job. Start one: `penstock work`" }));
      return;
    }
    const lines = found.map((event, i) => {
      const { text, kind } = eventOf(event);
      const before = i ? event.at - found[i - 1].at : null;
      return h("li", { "data-event": event.what, "data-kind": kind },
        h("div", { class: "timeline-head" }, h("strong", {}, text), time(event.at),
          before !== null && before >= 1000 ? h("span", { class: "muted" }, `${duration(before)} later`) : null),
        event.detail ? h("p", { class: "words" }, event.detail) : null,
        event.by ? h("p", { class: "muted small" }, `worker ${event.by}`) : null);
    });
    replace(events, ...lines.reverse());
  }

  async function ask() {
    if (isAsking) return;
    isAsking = true;
    try {
      const [now, found] = await Promise.all([ctx.api.get(`/jobs/${encodeURIComponent(id)}`), ctx.api.get(`/jobs/${encodeURIComponent(id)}/events`)]);
      if (ended) return;
      show(now);
      showEvents(found);
    } catch (error) {
      if (!ended && content.hidden) {
        const words = error instanceof Error ? error.message : String(error);
        refresh(waiting, errorState({ title: "The job could not be read", text: words, action: { text: "All jobs", href: path("jobs") } }));
      }
    } finally {
      isAsking = false;
    }
  }

  void ask();
  return {
    /** @param {string} _topic @param {any} summary */
    update(_topic, summary) {
      const listed = summary.items.find((/** @type {any} */ one) => one.id === id);
      // Not all jobs are in the list. One that has ended changes no more.
      const isEnded = job?.status === "deleted" || job?.state === "success";
      if (listed ? listed.version !== job?.version : !isEnded) void ask();
      else if (job) show(job);
    },
    failed() {},
    unmount() {
      ended = true;
    },
  };
}
