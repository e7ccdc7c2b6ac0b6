// @ts-check
// Pause, resume and run now: asks the server, and shows what its answer says.
//
//   const act = jobActions(ctx, changed);   act(job, "pause")
//   actionButtons(job, act, busy)           buttons [data-action=pause|resume|run][data-control]
// `changed(job)` gets the document that the store has now. Pausing and resuming offer the opposite
// in the message, so nothing asks "are you sure" for what can be undone by one click.

import { h } from "./dom.js";
import { actionsOf } from "./job-facts.js";

const WORDS = {
  pause: { button: "Pause", done: "is paused", hint: "A worker stops it at the end of its page; it continues there later" },
  resume: { button: "Resume", done: "may run again", hint: "Continues from its cursor" },
  run: { button: "Run", done: "runs before all others", hint: "Makes it due at once, before all others" },
};
const UNDO = /** @type {Record<string, "pause" | "resume">} */ ({ pause: "resume", resume: "pause" });

/** @typedef {"pause" | "resume" | "run"} Action */

/**
 * @param {import("../app.js").Context} ctx
 * @param {(job: any) => void} changed
 * @param {(id: string, isBusy: boolean) => void} [busy]
 */
export function jobActions(ctx, changed, busy = () => {}) {
  /** @param {any} job @param {Action} action */
  async function act(job, action) {
    busy(job.id, true);
    try {
      const now = await ctx.api.send("POST", `/jobs/${encodeURIComponent(job.id)}/${action}`);
      changed(now);
      const undo = UNDO[action];
      ctx.toast(`${nameOf(job)} ${WORDS[action].done}.`, "ok",
        undo && job.state !== "failed" ? { text: "Undo", run: () => void act(now, undo) } : undefined);
    } catch (error) {
      ctx.toast(`${nameOf(job)}: ${error instanceof Error ? error.message : error}`, "bad");
    } finally {
      busy(job.id, false);
    }
  }
  return act;
}

/** @param {any} job @returns {string} */
export function nameOf(job) {
  return [job.type, job.exchange_id, job.symbol, job.timeframe].filter(Boolean).join(" ");
}

/**
 * @param {any} job
 * @param {(job: any, action: Action) => void} act
 * @param {boolean} isBusy
 */
export function actionButtons(job, act, isBusy) {
  return actionsOf(job).map((action) =>
    h("button", {
      type: "button", class: "button small", "data-action": action, "data-control": true, disabled: isBusy,
      title: WORDS[action].hint, "aria-label": `${WORDS[action].button}: ${nameOf(job)}`,
      onclick: () => act(job, action),
    }, WORDS[action].button));
}
