// @ts-check
// Coverage: which days and hours of which series are complete, and why each hole is there.
//
// Days → hours of one day → one hour: a click (or Enter) on a cell goes one step deeper, the path
// above the map goes back. The holes below are those of what is selected.
//
// Hooks: [data-map][data-rows][data-columns], [data-field] share, series, gaps_open, gaps_filled,
// gaps_unfillable, cell; [data-choice=days|view|state] button[data-value], [data-crumb=days|day|hour],
// [data-table=series] tr[data-row="EXCHANGE SYMBOL CHANNEL"], [data-table=gaps] tr[data-gap-id][data-gap-state],
// button[data-action=fill], a[data-job-id]. Query: days, day, hour, exchange, symbol, channel, state.

import { count, percent, setTime, utcDay, utcTime } from "../format.js";
import { card, chooser } from "../parts/card.js";
import { h, icon, replace, setText } from "../parts/dom.js";
import { countCells, KINDS, nameOf, shareOf } from "../parts/heat-model.js";
import { heatmap } from "../parts/heatmap.js";
import { holes } from "../parts/holes.js";
import { filterRows } from "../parts/rows.js";
import { emptyState, errorState, skeleton } from "../parts/states.js";
import { table } from "../parts/table.js";

export const title = "Coverage";
export const topics = ["coverage"];

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const PAGE = 500;
const MOST_SERIES = 5000;
const AGAIN_MS = 60_000;

/** @typedef {import("../parts/heat-model.js").Series} Series */
/** @typedef {{days: number, day: number | null, hour: number | null, exchange: string | null, symbol: string | null, channel: string | null}} Place */

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  const usual = innerWidth < 640 ? 14 : 60;
  let place = placeOf(ctx.query, usual);
  /** @type {{from_ms: number, step_ms: number, columns: number, series: Series[]} | null} */
  let found = null;
  let filter = "";
  let changedMs = -1;
  let isFirst = true;
  let isStale = false;
  /** @type {AbortController | null} */
  let loading = null;

  const map = heatmap({ open: openCell, back: goBack });
  const asTable = seriesTable();
  const gaps = holes(ctx, { scope: () => scopeOf(place), words: () => scopeWords(place) });
  const counts = countsPart();
  const crumbs = h("nav", { class: "crumbs", "aria-label": "Range" });
  const field = h("input", {
    type: "search", class: "input", "data-filter": true, placeholder: "Filter series", "aria-label": "Filter series", autocomplete: "off",
    oninput: () => {
      filter = field.value;
      show();
    },
  });
  const days = chooser({
    label: "Days", name: "days", value: String(place.days),
    options: [1, 14, 30, 60, 90].map((value) => ({ value: String(value), text: daysText(value) })),
    change: (value) => go({ days: Number(value), day: null, hour: null }),
  });
  const view = chooser({
    label: "Show as", name: "view", value: "map", options: [{ value: "map", text: "Map" }, { value: "table", text: "Table" }],
    change: (value) => {
      mapPlace.hidden = value !== "map";
      asTable.element.hidden = value !== "table";
    },
  });
  const mapPlace = h("div", { class: "card-body" }, map.element, legend());
  asTable.element.hidden = true;
  const state = h("div", {}, skeleton(8));
  const content = h("div", { hidden: true }, mapPlace, asTable.element);
  root.append(h("div", { class: "stack" },
    counts.element,
    card({ title: "Map", name: "map", sub: crumbs, tools: [h("span", { class: "search" }, icon("search"), field), days.element, view.element] }, state, content),
    gaps.element));

  /** @param {Partial<Place>} changes */
  function go(changes) {
    const isOther = changes.day !== undefined || changes.days !== undefined;
    place = { ...place, ...changes };
    days.set(place.day === null ? String(place.days) : "");
    ctx.setQuery({
      days: place.days === usual ? null : String(place.days), day: place.day === null && place.hour === null ? null : utcDay(place.day ?? place.hour),
      hour: place.hour === null ? null : utcTime(place.hour).slice(0, 2),
      exchange: place.exchange, symbol: place.symbol, channel: place.channel,
    });
    if (isOther) void load();
    else show();
    gaps.load();
  }

  /** @param {Series} series @param {number} column */
  function openCell(series, column) {
    if (!found) return;
    const at = found.from_ms + column * found.step_ms;
    const { exchange, symbol, channel } = series;
    if (found.step_ms >= DAY_MS) go({ day: at, hour: null, exchange, symbol, channel });
    else go({ hour: at, exchange, symbol, channel });
  }

  function goBack() {
    if (place.hour !== null) go({ hour: null });
    else if (place.day !== null) go({ day: null });
    else if (place.exchange) go({ exchange: null, symbol: null, channel: null });
  }

  /** @param {boolean} [isAgain]  the same once more: waits for an answer that is on its way */
  async function load(isAgain = false) {
    if (isAgain && loading) {
      isStale = true;
      return;
    }
    loading?.abort();
    const mine = (loading = new AbortController());
    isStale = false;
    const today = Math.floor(ctx.now() / DAY_MS) * DAY_MS;
    const hour = Math.floor(ctx.now() / HOUR_MS) * HOUR_MS;
    const range = place.day !== null
      ? { from: place.day, until: place.day + DAY_MS - 1, step: "hour" }
      : place.days === 1
        ? { from: hour - 23 * HOUR_MS, until: hour + HOUR_MS - 1, step: "hour" }
        : { from: today - (place.days - 1) * DAY_MS, until: today + DAY_MS - 1, step: "day" };
    try {
      /** @type {Series[]} */
      const series = [];
      let page = await ctx.api.get("/coverage/map", { ...range, limit: PAGE }, mine.signal);
      series.push(...page.series);
      while (page.more && series.length < MOST_SERIES) {
        page = await ctx.api.get("/coverage/map", { ...range, limit: PAGE, after: page.more }, mine.signal);
        series.push(...page.series);
      }
      const isYoungest = isFirst && !ctx.query.has("days") && place.day === null && isYoung({ ...page, series });
      isFirst = false;
      loading = null;
      if (isYoungest) return go({ days: 1 });
      found = { ...page, series };
      show();
      if (isStale) void load();
    } catch (error) {
      if (mine.signal.aborted) return;
      loading = null;
      const text = error instanceof Error ? error.message : String(error);
      if (found) return ctx.toast(`The map could not be read: ${text}`, "bad");
      replace(state, errorState({ title: "The map could not be read", text, action: { text: "Try again", run: () => void load() } }));
    }
  }

  function show() {
    showCrumbs();
    if (!found) return;
    const shown = filterRows(found.series, filter, nameOf);
    const isEmpty = !shown.length;
    state.hidden = !isEmpty;
    content.hidden = isEmpty;
    if (isEmpty) {
      replace(state, found.series.length
        ? emptyState({ title: "No series matches", text: `${count(found.series.length)} series are hidden by the filter.`, action: { text: "Clear the filter", run: clearFilter } })
        : emptyState({ title: "Nothing recorded in this range", text: "Start `penstock demo` or `penstock collect EXCHANGE SYMBOL`; what is complete appears here within seconds." }));
    }
    map.update({ ...found, series: shown });
    asTable.update(shown);
    const name = place.exchange && place.symbol && place.channel ? nameOf({ exchange: place.exchange, symbol: place.symbol, channel: place.channel, share: null, cells: "" }) : null;
    const at = place.hour ?? place.day;
    const column = at === null ? null : Math.floor((at - found.from_ms) / found.step_ms);
    map.select(name, column !== null && found.step_ms === (place.hour === null ? DAY_MS : HOUR_MS) ? column : null);
    counts.updateMap(shown);
  }

  function clearFilter() {
    field.value = filter = "";
    show();
  }

  function showCrumbs() {
    const parts = [crumb("days", place.days === 1 ? "last 24 hours" : `${place.days} days`, place.day === null && place.hour === null ? null : () => go({ day: null, hour: null }))];
    if (place.day !== null) parts.push(crumb("day", utcDay(place.day), place.hour === null ? null : () => go({ hour: null })));
    if (place.hour !== null) parts.push(crumb("hour", `${utcTime(place.hour).slice(0, 5)}–${utcTime(place.hour + HOUR_MS).slice(0, 5)} UTC`, null));
    if (place.symbol) {
      parts.push(h("span", { class: "chip" }, `${place.symbol} ${place.exchange} ${place.channel}`,
        h("button", { type: "button", "aria-label": "All series", onclick: () => go({ exchange: null, symbol: null, channel: null }) }, "×")));
    }
    replace(crumbs, ...parts);
  }

  showCrumbs();
  void load();
  gaps.load();
  const again = setInterval(() => document.visibilityState === "visible" && void load(true), AGAIN_MS);

  return {
    /** @param {string} _topic @param {any} now */
    update(_topic, now) {
      counts.updateGaps(now);
      if (changedMs !== -1 && changedMs !== now.changed_ms) {
        void load(true);
        gaps.load(true);
      }
      changedMs = now.changed_ms;
    },
    unmount() {
      clearInterval(again);
      loading?.abort();
      map.unmount();
      asTable.unmount();
      gaps.unmount();
    },
  };
}

/**
 * @param {string} name
 * @param {string} text
 * @param {(() => void) | null} run  null: it is where we are
 */
function crumb(name, text, run) {
  return run
    ? h("button", { type: "button", class: "crumb", "data-crumb": name, onclick: run }, text)
    : h("span", { class: "crumb", "data-crumb": name, "aria-current": "true" }, text);
}

/** @param {number} days */
function daysText(days) {
  return days === 1 ? "24 h" : `${days} d`;
}

/**
 * Whether a map of days has something in its last two columns only: hours show more then.
 * @param {{columns: number, series: Series[]}} map
 */
export function isYoung({ columns, series }) {
  return columns > 2 && series.length > 0 && series.every(({ cells }) => /^\.*$/.test(cells.slice(0, columns - 2)));
}

/**
 * @param {URLSearchParams} query
 * @param {number} days
 * @returns {Place}
 */
export function placeOf(query, days) {
  const day = Date.parse(`${query.get("day") ?? ""}T00:00:00Z`);
  const hour = Number.parseInt(query.get("hour") ?? "", 10);
  const asked = Number(query.get("days"));
  return {
    days: asked >= 1 && asked <= 366 ? Math.floor(asked) : days,
    day: Number.isNaN(day) ? null : day,
    hour: Number.isNaN(day) || !(hour >= 0 && hour < 24) ? null : day + hour * HOUR_MS,
    exchange: query.get("exchange"), symbol: query.get("symbol"), channel: query.get("channel"),
  };
}

/** What the list of holes asks for. @param {Place} place */
export function scopeOf({ day, hour, exchange, symbol, channel }) {
  const from = hour ?? day;
  return { exchange, symbol, channel, from, until: from === null ? null : from + (hour === null ? DAY_MS : HOUR_MS) };
}

/** @param {Place} place */
function scopeWords({ day, hour, symbol, exchange, channel }) {
  const series = symbol ? `${symbol} ${exchange} ${channel}` : "all series";
  const from = hour ?? day;
  return from === null ? series : `${series}, ${utcDay(from)}${hour === null ? "" : ` ${utcTime(hour).slice(0, 5)}`}`;
}

function legend() {
  return h("ul", { class: "legend-row", "aria-label": "Legend" }, ...Object.entries(KINDS).map(([kind, { text }]) =>
    h("li", {}, h("span", { class: `key key-${kind}` }), text)));
}

function countsPart() {
  const fields = /** @type {Record<string, HTMLElement>} */ ({});
  const items = /** @type {const} */ ([
    ["share", "Complete"], ["series", "Series"], ["gaps_open", "Open holes"], ["gaps_filled", "Filled"], ["gaps_unfillable", "Cannot be filled"],
  ]);
  const changed = h("time", { "data-field": "changed_ms" }, "–");
  const element = h("dl", { class: "quote card" }, ...items.map(([name, text]) =>
    h("div", {}, h("dt", {}, text), (fields[name] = h("dd", { "data-field": name }, "–")))),
  h("div", {}, h("dt", {}, "Last change"), h("dd", {}, changed)));
  return {
    element,
    /** @param {Series[]} series */
    updateMap(series) {
      setText(fields.share, percent(shareOf(series), 2));
      setText(fields.series, count(series.length));
    },
    /** @param {any} now */
    updateGaps(now) {
      for (const name of ["gaps_open", "gaps_filled", "gaps_unfillable"]) setText(fields[name], count(now[name]));
      fields.gaps_open.classList.toggle("sell", now.gaps_open > 0);
      setTime(changed, now.changed_ms, utcTime(now.changed_ms));
    },
  };
}

function seriesTable() {
  const column = (/** @type {keyof typeof KINDS} */ kind, /** @type {string} */ title) => ({
    name: kind, title, numeric: true,
    value: (/** @type {Series} */ one) => countCells(one.cells)[kind], text: (/** @type {Series} */ one) => count(countCells(one.cells)[kind]),
  });
  return table({
    name: "series", label: "Coverage of each series", filter: false, key: nameOf,
    sort: { column: "share", direction: 1 },
    empty: { title: "No series", text: "Nothing is recorded in this range." },
    columns: [
      { name: "symbol", title: "Symbol", value: (one) => one.symbol },
      { name: "exchange", title: "Exchange", value: (one) => one.exchange },
      { name: "channel", title: "Channel", value: (one) => one.channel },
      { name: "share", title: "Complete", numeric: true, value: (one) => one.share, text: (one) => percent(one.share, 2) },
      column("full", "Columns complete"), column("filled", "Filled"), column("part", "Partly"), column("open", "With open holes"), column("never", "Cannot be filled"),
    ],
  });
}

