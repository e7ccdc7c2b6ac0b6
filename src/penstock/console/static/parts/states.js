// @ts-check
// What stands in place of content: nothing there, an error, still loading.
//
//   emptyState({title, text, action?: {text, run | href}})
//   errorState({title, text, action?})      role=alert; data-state=error
//   skeleton(rows?)                         grey bars while loading
//   withCode("run `penstock demo`")         nodes: what is in backquotes as <code>

import { h, icon } from "./dom.js";

/** @typedef {{title: string, text?: string, action?: {text: string, run?: () => void, href?: string}}} StateText */

/** @param {StateText} text */
export function emptyState(text) {
  return state("empty", "empty", text);
}

/** @param {StateText} text */
export function errorState(text) {
  const element = state("error", "warning", text);
  element.setAttribute("role", "alert");
  return element;
}

/**
 * @param {string} kind
 * @param {string} picture
 * @param {StateText} text
 */
function state(kind, picture, { title, text, action }) {
  return h("div", { class: `state state-${kind}`, "data-state": kind },
    icon(picture),
    h("p", { class: "state-title" }, title),
    text && h("p", { class: "state-text" }, ...withCode(text)),
    action && (action.href
      ? h("a", { class: "button", href: action.href }, action.text)
      : h("button", { type: "button", class: "button", onclick: action.run }, action.text)));
}

/**
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function withCode(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** @param {number} [rows] */
export function skeleton(rows = 4) {
  return h("div", { class: "skeleton", "aria-busy": "true", "aria-label": "Loading", role: "status" },
    ...Array.from({ length: rows }, () => h("span", { class: "skeleton-bar" })));
}
