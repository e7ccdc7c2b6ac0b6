// @ts-check
// Processes: what runs where, under which supervisor, how each is and why.
//
// Hooks: [data-field=running], failed, impaired, restarts; [data-table=processes]
// tr[data-process=NAME][data-state][data-level] td[data-field] name, state, doing, since, last_data, restarts, where.

import { ago, count, duration, setTime, time, UNKNOWN, utc } from "../format.js";
import { badge, setBadge } from "../parts/badge.js";
import { card, stat } from "../parts/card.js";
import { h, refresh, replace, setAttribute, setText } from "../parts/dom.js";
import { treeOf } from "../parts/process-tree.js";
import { errorState, skeleton } from "../parts/states.js";
import { table } from "../parts/table.js";

export const title = "Processes";
export const topics = ["processes"];

/** @typedef {import("../parts/process-tree.js").Row} Row */

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  const stats = {
    running: stat({ name: "running", title: "Running" }),
    failed: stat({ name: "failed", title: "Failed or gone" }),
    impaired: stat({ name: "impaired", title: "Impaired", hint: "Running, with a problem" }),
    restarts: stat({ name: "restarts", title: "Restarts", hint: "By supervisors, since these started" }),
  };
  const rows = processTable(ctx);
  const waiting = h("div", {}, skeleton(8));
  const content = h("div", { class: "stack", hidden: true },
    h("div", { class: "stats" }, ...Object.values(stats).map((one) => one.element)),
    card({ title: "Processes", sub: "of all machines that share the state store", name: "processes" }, rows.element));
  root.append(waiting, content);
  return {
    /** @param {string} _topic @param {any} now */
    update(_topic, now) {
      const found = treeOf(now.items);
      const hosts = new Set(found.map((one) => one.host)).size;
      const bad = found.filter((one) => one.badge === "bad").length;
      const weak = found.filter((one) => one.state === "impaired").length;
      const supervised = found.filter((one) => one.level);
      const again = supervised.reduce((sum, one) => sum + (one.restarts ?? 0), 0);
      waiting.hidden = true;
      content.hidden = false;
      stats.running.update({ value: count(found.filter((one) => ["running", "impaired"].includes(one.state)).length), note: `on ${count(hosts)} ${hosts === 1 ? "machine" : "machines"}` });
      stats.failed.update({ value: count(bad), note: bad ? "see why below" : "none", kind: bad ? "bad" : "" });
      stats.impaired.update({ value: count(weak), note: weak ? "see why below" : "none", kind: weak ? "warning" : "" });
      stats.restarts.update({ value: supervised.length ? count(again) : UNKNOWN, note: supervised.length ? "" : "no supervisor runs: penstock up" });
      rows.update(found);
    },
    /** @param {string} _topic @param {string} words */
    failed(_topic, words) {
      if (!content.hidden) return ctx.toast(words, "bad");
      refresh(waiting, errorState({ title: "The processes could not be read", text: `${words} The same by command: \`penstock status\`` }));
    },
    unmount: () => rows.unmount(),
  };
}

/** @param {import("../app.js").Context} ctx */
function processTable(ctx) {
  return table({
    name: "processes",
    label: "Processes",
    key: (/** @type {Row} */ one) => one.key,
    rowHeight: 54,
    cards: true,
    props: (one) => ({ "data-process": one.name, "data-state": one.state, "data-level": String(one.level), "data-ended": String(one.isEnded) }),
    empty: { title: "No process yet", text: "Run all processes of a machine: `penstock up`. Or one of them: `penstock collect`, `penstock work`, `penstock keep`" },
    columns: [
      { name: "name", title: "Process", value: (one) => one.name, text: (one) => `${one.name} ${one.kind}`, paint: paintName },
      {
        name: "state", title: "State", value: (one) => one.state,
        paint: (cell, one) => {
          if (!cell.firstChild) cell.append(badge("", "off"));
          setBadge(/** @type {HTMLElement} */ (cell.firstElementChild), one.state, one.badge);
        },
      },
      { name: "doing", title: "What it does", wide: true, value: (one) => one.doing, text: (one) => [one.doing, ...one.problems].join(" "), paint: paintDoing },
      {
        name: "since", title: "Since", numeric: true, value: (one) => one.since_ms, text: (one) => ago(one.since_ms, ctx.now()),
        paint: (cell, one) => paintTime(cell, one.since_ms, one.since_ms === null ? UNKNOWN : duration(Math.floor(Math.max(0, ctx.now() - one.since_ms) / 1000) * 1000)),
      },
      { name: "last_data", title: "Last data", numeric: true, value: (one) => one.last_data_ms, text: (one) => ago(one.last_data_ms, ctx.now()), paint: (cell, one) => paintTime(cell, one.last_data_ms, ago(one.last_data_ms, ctx.now())) },
      {
        name: "restarts", title: "Restarts", numeric: true, value: (one) => one.restarts, text: (one) => count(one.restarts),
        paint: (cell, one) => {
          setText(cell, count(one.restarts));
          setAttribute(cell, "data-kind", one.restarts ? "warning" : null);
        },
      },
      { name: "where", title: "Machine", minor: true, value: (one) => `${one.host} ${one.pid ?? ""}`, paint: paintWhere },
    ],
  });
}

/** @param {HTMLTableCellElement} cell @param {Row} one */
function paintName(cell, one) {
  if (!cell.firstChild) cell.append(h("strong", { class: "clip" }), h("span", { class: "muted after" }));
  setAttribute(cell, "title", one.name);
  setText(cell.children[0], one.name);
  setText(cell.children[1], one.name.startsWith(one.kind) ? "" : one.kind);
}

/** @param {HTMLTableCellElement} cell @param {Row} one */
function paintDoing(cell, one) {
  if (!cell.firstChild) cell.append(h("p", { class: "doing" }), h("p", { class: "why" }));
  const [doing, why] = /** @type {HTMLElement[]} */ ([...cell.children]);
  setText(doing, one.doing || (one.problems.length ? "" : UNKNOWN));
  doing.hidden = !doing.textContent;
  setText(why, one.problems.join(" · "));
  why.hidden = !one.problems.length;
  setAttribute(why, "data-kind", one.badge === "ok" ? null : one.badge);
}

/** @param {HTMLTableCellElement} cell @param {number | null} ms @param {string} text */
function paintTime(cell, ms, text) {
  if (!(cell.firstChild instanceof HTMLTimeElement)) replace(cell, time(null, ""));
  setTime(/** @type {HTMLTimeElement} */ (cell.firstChild), ms, text);
}

/** @param {HTMLTableCellElement} cell @param {Row} one */
function paintWhere(cell, one) {
  if (!cell.firstChild) cell.append(h("span", { class: "clip" }));
  setText(/** @type {Element} */ (cell.firstElementChild), `${one.host}${one.pid === null ? "" : ` · ${one.pid}`}`);
  setAttribute(cell, "title", `Data folder ${one.folder}${one.since_ms ? `, started ${utc(one.since_ms)} UTC` : ""}`);
}
