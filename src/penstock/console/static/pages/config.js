// @ts-check
// Config: the settings of the server's process, where each comes from; secrets are masked by the server.
//
// Hooks: [data-choice=config] button[data-value=all|changed]; [data-table=config] tr[data-setting=NAME][data-masked]
// td[data-field] name, value, origin, doc; dialog[data-dialog=setting].

import { badge } from "../parts/badge.js";
import { card, chooser } from "../parts/card.js";
import { openDialog } from "../parts/dialog.js";
import { h, replace, setAttribute, setText } from "../parts/dom.js";
import { errorState, skeleton } from "../parts/states.js";
import { table } from "../parts/table.js";

export const title = "Config";
export const topics = /** @type {string[]} */ ([]);

/**
 * A value as it would be in penstock.toml. Pure.
 * @param {any} value
 * @returns {string}
 */
export function valueText(value) {
  if (value === null || value === undefined || value === "") return "";
  if (Array.isArray(value)) return value.map(valueText).join(", ");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  /** @type {any[]} */
  let items = [];
  let choice = "all";
  let ended = false;
  const chosen = chooser({
    label: "Which settings", name: "config", value: choice,
    options: [{ value: "all", text: "All" }, { value: "changed", text: "Not the default" }],
    change: (value) => {
      choice = value;
      show();
    },
  });
  const rows = table({
    name: "config",
    label: "Settings",
    key: (/** @type {any} */ one) => one.name,
    props: (one) => ({ "data-setting": one.name, "data-masked": String(one.masked) }),
    tools: [chosen.element],
    open: showSetting,
    cards: true,
    empty: { title: "Every setting has its default", text: "Write a file with all of them, explained: `penstock init`" },
    columns: [
      { name: "name", title: "Setting", value: (one) => one.name, paint: (cell, one) => code(cell, one.name) },
      {
        name: "value", title: "Value", wide: true, value: (one) => valueText(one.value),
        paint: (cell, one) => {
          code(cell, valueText(one.value) || (one.masked ? "" : "not set"));
          cell.firstElementChild?.classList.toggle("muted", !valueText(one.value));
          if (one.masked && !cell.querySelector(".badge")) cell.append(badge("masked", "off", { title: "A part of it is a secret, which the server does not send" }));
        },
      },
      { name: "origin", title: "From", wide: true, value: (one) => one.origin, paint: (cell, one) => (setText(cell, one.origin), setAttribute(cell, "data-kind", one.origin === "default" ? null : "info")) },
      { name: "doc", title: "What it does", minor: true, value: (one) => one.doc, paint: (cell, one) => (cell.firstChild || cell.append(h("p", { class: "doc" })), setText(/** @type {Element} */ (cell.firstElementChild), one.doc), setAttribute(cell, "title", one.doc)) },
    ],
  });
  const waiting = h("div", {}, skeleton(10));
  const content = h("div", { class: "stack", hidden: true },
    card({ title: "Settings", sub: "of this server's process; of another: penstock config show --origin", name: "config" }, rows.element));
  root.append(waiting, content);

  function show() {
    rows.update(choice === "all" ? items : items.filter((one) => one.origin !== "default"));
  }

  async function ask() {
    try {
      const answer = await ctx.api.get("/config");
      items = answer.items.map((/** @type {any} */ one) => ({ ...one, doc: (one.doc ?? "").replaceAll("``", "`") }));
    } catch (error) {
      if (ended) return;
      const words = error instanceof Error ? error.message : String(error);
      replace(waiting, errorState({ title: "The settings could not be read", text: `${words} The same by command: \`penstock config show --origin\``, action: { text: "Try again", run: () => void ask() } }));
      return;
    }
    if (ended) return;
    waiting.hidden = true;
    content.hidden = false;
    show();
  }

  void ask();
  return {
    update() {},
    unmount() {
      ended = true;
      rows.unmount();
    },
  };
}

/** @param {any} one */
function showSetting(one) {
  const facts = [["Value", valueText(one.value) || "not set"], ["From", one.origin], ["Variable", `PENSTOCK_${one.name.replaceAll(".", "_").toUpperCase()}`]];
  openDialog({
    name: "setting",
    title: one.name,
    body: [h("p", {}, one.doc || "It has no explanation."), h("dl", { class: "facts is-left" }, ...facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)]))],
  });
}

/** @param {HTMLTableCellElement} cell @param {string} text */
function code(cell, text) {
  if (!cell.firstElementChild) cell.append(h("span", { class: "mono value" }));
  setText(/** @type {Element} */ (cell.firstElementChild), text);
  setAttribute(cell, "title", text);
}
