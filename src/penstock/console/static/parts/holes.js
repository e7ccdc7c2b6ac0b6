// @ts-check
// The list of holes with who caused each, why, and the button that makes a job to fill it.
//
//   const list = holes(ctx, {scope: () => ({exchange, symbol, channel, from, until}), words: () => text});
//   list.load()   list.element   list.unmount()
// Hooks: [data-table=gaps] tr[data-gap-id][data-gap-state], [data-action=fill], a[data-job-id], [data-choice=state].

import { count, duration, setTime, time, UNKNOWN } from "../format.js";
import { path } from "../router.js";
import { badge } from "./badge.js";
import { card, chooser } from "./card.js";
import { h, replace, setText } from "./dom.js";
import { errorState } from "./states.js";
import { table } from "./table.js";

const MOST = 500;
const STATES = [{ value: "open", text: "Open" }, { value: "unfillable", text: "Cannot be filled" }, { value: "filled", text: "Filled" }, { value: "", text: "All" }];
const CAUSES = /** @type {Record<string, string>} */ ({
  lost: "not received although the connection was open", missing: "missing between the candles that came", damaged: "lost with a damaged file of the log",
  disconnected: "the connection was lost", asked_anew: "the stream was subscribed again", book: "the book was wrong and was fetched again",
  removed: "the stream was removed", stopped: "the collector was stopped", not_running: "no collector ran", not_collected: "the stream was not collected",
});
const ORIGINS = /** @type {Record<string, string>} */ ({ ours: "ours", exchange: "the exchange's", unknown: "unknown" });

/**
 * @param {import("../app.js").Context} ctx
 * @param {{scope: () => Record<string, string | number | null>, words: () => string}} options
 */
export function holes(ctx, { scope, words }) {
  let state = STATES.some(({ value }) => value === ctx.query.get("state")) ? String(ctx.query.get("state")) : "open";
  /** @type {AbortController | null} */
  let loading = null;
  /** Jobs made here, by hole, until the server tells of them itself. @type {Map<string, string>} */
  const made = new Map();
  /** @type {any[]} */
  let items = [];

  const where = h("span", {});
  const problem = h("div", {});
  const more = h("p", { class: "muted card-note", hidden: true });
  const states = chooser({
    label: "State", name: "state", value: state, options: STATES,
    change: (value) => {
      state = value;
      ctx.setQuery({ state: value === "open" ? null : value });
      load();
    },
  });
  const list = table({
    name: "gaps", label: "Holes", filter: false, cards: true,
    key: (/** @type {any} */ gap) => gap.id,
    props: (gap) => ({ "data-gap-id": gap.id, "data-gap-state": shownState(gap, made) }),
    sort: { column: "since", direction: -1 },
    empty: { title: "No holes here", text: "Nothing is missing in what is selected above." },
    columns: [
      {
        name: "series", title: "Series", value: (gap) => `${gap.symbol} ${gap.exchange} ${gap.channel}`,
        paint: (cell, gap) => {
          if (!cell.firstChild) cell.append(h("strong", {}, gap.symbol), h("span", { class: "muted" }, ` ${gap.exchange} ${gap.channel}`));
        },
      },
      {
        name: "since", title: "From (UTC)", wide: true, value: (gap) => gap.since_ms ?? gap.opened_ms,
        paint: (cell, gap) => {
          if (!(cell.firstChild instanceof HTMLTimeElement)) replace(cell, time(null));
          setTime(/** @type {HTMLTimeElement} */ (cell.firstChild), gap.since_ms ?? gap.opened_ms);
        },
      },
      { name: "lasted", title: "Lasted", numeric: true, value: lasted, text: (gap) => duration(lasted(gap)) },
      {
        name: "size", title: "Missing", numeric: true, minor: true, hint: "Numbers of records, where the exchange numbers them",
        value: (gap) => (gap.by === "id" ? gap.size : null), text: (gap) => (gap.by === "id" ? count(gap.size) : UNKNOWN),
      },
      {
        name: "state", title: "State", value: (gap) => shownState(gap, made),
        paint: (cell, gap) => {
          const now = shownState(gap, made);
          if (cell.dataset.state !== now) replace(cell, badge(now === "unfillable" ? "cannot be filled" : now, now === "open" ? "bad" : now === "filled" ? "ok" : now === "filling" ? "info" : "off"));
          cell.dataset.state = now;
        },
      },
      { name: "origin", title: "Whose", value: (gap) => gap.origin, text: (gap) => ORIGINS[gap.origin] ?? gap.origin },
      {
        name: "reason", title: "Why", wide: true, value: reasonOf,
        paint: (cell, gap) => {
          if (!cell.firstChild) cell.append(h("span", { class: "reason" }));
          setText(/** @type {Element} */ (cell.firstChild), reasonOf(gap));
        },
      },
      { name: "action", title: "", wide: true, sortable: false, value: () => null, paint: paintAction },
    ],
  });
  const element = card({ title: "Holes", sub: where, name: "gaps", tools: [states.element] }, list.element, problem, more);

  /** @param {HTMLTableCellElement} cell @param {any} gap */
  function paintAction(cell, gap) {
    const job = gap.job_id || made.get(gap.id);
    const want = job ? `job ${job}` : gap.fillable ? "fill" : "none";
    if (cell.dataset.shown === want) return;
    cell.dataset.shown = want;
    if (job) replace(cell, h("a", { href: path("jobs", job), "data-job-id": job }, "Show its job"));
    else if (gap.fillable) replace(cell, h("button", { type: "button", class: "button small", "data-action": "fill", "data-control": true, onclick: (/** @type {MouseEvent} */ event) => fill(gap, event) }, "Fill"));
    else replace(cell);
  }

  /** @param {any} gap @param {MouseEvent} event */
  async function fill(gap, event) {
    const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
    button.disabled = true;
    try {
      const job = await ctx.api.send("POST", "/gaps/fill", { id: gap.id });
      made.set(gap.id, job.id);
      list.update(items);
      ctx.toast(`A job fills the hole of ${gap.symbol}.`, "ok", { text: "Show it", href: path("jobs", job.id) });
    } catch (error) {
      button.disabled = false;
      ctx.toast(error instanceof Error ? error.message : String(error), "bad");
      load(); // it may have been filled meanwhile
    }
  }

  function load() {
    loading?.abort();
    const mine = (loading = new AbortController());
    setText(where, words());
    ctx.api.get("/gaps", { ...scope(), state, limit: MOST }, mine.signal).then((page) => {
      items = page.items;
      more.hidden = !page.more;
      setText(more, `The first ${count(items.length)} are shown. Select a series or a day above to see others.`);
      list.update(items);
      list.element.hidden = false;
      replace(problem);
    }, (error) => {
      if (mine.signal.aborted) return;
      list.element.hidden = true;
      replace(problem, errorState({ title: "The holes could not be read", text: error.message, action: { text: "Try again", run: load } }));
    });
  }

  return {
    element,
    load,
    unmount() {
      loading?.abort();
      list.unmount();
    },
  };
}

/** @param {any} gap */
function lasted(gap) {
  return gap.since_ms === null || gap.until_ms === null ? null : gap.until_ms - gap.since_ms;
}

/**
 * @param {any} gap
 * @param {Map<string, string>} made
 */
function shownState(gap, made) {
  return gap.state === "open" && (gap.job_id || made.has(gap.id)) ? "filling" : gap.state;
}

/**
 * Why it is there, and why it cannot be filled or what filled it.
 * @param {any} gap
 */
export function reasonOf(gap) {
  const why = gap.reason || CAUSES[gap.cause] || gap.cause || "no reason known";
  if (gap.state === "filled") return gap.source ? `${why} · filled from ${gap.source}` : why;
  return gap.why_not && gap.why_not !== why ? `${why} · ${gap.why_not}` : why;
}
