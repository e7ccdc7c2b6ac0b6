// @ts-check
// Cards, figures and choosers.
//
//   card({title, sub?, tools?: [nodes], name?}, ...body)      <section data-card=name>
//   stat({name: "gaps_open", title: "Open gaps", href?, extra?: node}) → {element, update({value, unit?, note?, kind?, noteKind?})}
//       the figure is in [data-field=name], the note in [data-note=name]; kinds: warning, bad
//   chooser({label, name, options: [{value, text}], value, change}) → {element, set(value)}
//       a row of buttons of which one is pressed: [data-choice=name] button[data-value]

import { h, setAttribute, setText } from "./dom.js";

/**
 * @param {{title: string, sub?: Node | string, tools?: Node[], name?: string}} head
 * @param {...import("./dom.js").Child} body
 */
export function card({ title, sub, tools = [], name }, ...body) {
  const id = name ? `card-${name}` : null;
  return h("section", { class: "card", "data-card": name, "aria-labelledby": id },
    h("header", { class: "card-head" },
      h("h2", { id }, title, sub ? h("span", { class: "sub" }, sub) : null),
      tools.length ? h("div", { class: "row" }, ...tools) : null),
    ...body);
}

/** @param {{name: string, title: string, href?: string, hint?: string, extra?: Node}} options */
export function stat({ name, title, href, hint, extra }) {
  const value = h("span", { "data-field": name });
  const unit = h("span", { class: "unit" });
  const note = h("span", { class: "stat-note", "data-note": name });
  const inside = [h("span", { class: "stat-name" }, title), h("span", { class: "stat-value" }, value, unit), note, extra];
  const element = href
    ? h("a", { class: "stat", href, title: hint }, ...inside)
    : h("div", { class: "stat", title: hint }, ...inside);
  return {
    element,
    /** @param {{value: string, unit?: string, note?: string, kind?: string, noteKind?: string}} now */
    update({ value: text, unit: word = "", note: words = "", kind = "", noteKind = "" }) {
      setText(value, text);
      setText(unit, word);
      setText(note, words);
      setAttribute(note, "title", words || null);
      setAttribute(element, "data-kind", kind || null);
      setAttribute(note, "data-kind", noteKind || null);
    },
  };
}

/**
 * @param {{label: string, name: string, options: {value: string, text: string}[], value: string, change: (value: string) => void}} options
 */
export function chooser({ label, name, options, value, change }) {
  const buttons = options.map((one) =>
    h("button", { type: "button", "data-value": one.value, onclick: () => choose(one.value) }, one.text));
  const element = h("div", { class: "tabs", role: "group", "aria-label": label, "data-choice": name }, ...buttons);
  /** @param {string} next */
  function set(next) {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === next));
  }
  /** @param {string} next */
  function choose(next) {
    set(next);
    change(next);
  }
  set(value);
  return { element, set };
}
