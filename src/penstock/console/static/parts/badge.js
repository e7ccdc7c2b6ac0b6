// @ts-check
// Badges: a word with a colour and a shape, so that the colour is never the only sign.
//
//   badge("synced", "ok")                      kinds: ok, warning, bad, info, off
//   setBadge(element, "stale", "warning", title?)
//   kindOf("running")                          the kind for a state of a job, process, breaker …

import { h, setAttribute, setText } from "./dom.js";

/** @typedef {"ok" | "warning" | "bad" | "info" | "off"} Kind */

/** @type {Record<string, Kind>} */
const KINDS = {
  ok: "ok", synced: "ok", running: "ok", closed: "ok", live: "ok", healthy: "ok", filled: "ok", open: "bad",
  warning: "warning", stale: "warning", resyncing: "warning", half_open: "warning", waiting: "warning", paused: "warning",
  bad: "bad", failed: "bad", error: "bad", critical: "bad", gone: "bad", blocked: "bad", unhealthy: "bad",
  info: "info", filling: "info", idle: "off", off: "off", done: "info", finished: "info", unfillable: "off", "no book": "off",
};

/** @param {string | null | undefined} state  @returns {Kind} */
export function kindOf(state) {
  return KINDS[String(state ?? "").toLowerCase()] ?? (String(state).startsWith("waiting") ? "warning" : "off");
}

/**
 * @param {string} text
 * @param {Kind} [kind]
 * @param {Record<string, any>} [props]  such as data-field
 */
export function badge(text, kind = kindOf(text), props = {}) {
  return h("span", { ...props, class: "badge", "data-kind": kind }, text);
}

/**
 * @param {HTMLElement} element
 * @param {string} text
 * @param {Kind} [kind]
 * @param {string} [title]
 */
export function setBadge(element, text, kind = kindOf(text), title = "") {
  setText(element, text);
  setAttribute(element, "data-kind", kind);
  setAttribute(element, "title", title || null);
}
