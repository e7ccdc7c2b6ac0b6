// @ts-check
// Short messages in the corner; read out by screen readers.
//
//   toast("Job made", "ok", {text: "Show it", href: "/jobs/17"})

import { h } from "./dom.js";

const SHOWN_MS = 6000;
const MOST = 4;

/**
 * @param {string} text
 * @param {"ok" | "bad" | "info"} [kind]
 * @param {{text: string, href: string}} [link]
 */
export function toast(text, kind = "info", link) {
  const place = document.getElementById("toasts");
  if (!place) return;
  while (place.children.length >= MOST) place.firstElementChild?.remove();
  const shown = h("div", { class: `toast is-${kind}`, "data-toast": kind },
    h("span", {}, text),
    link && h("a", { href: link.href }, link.text),
    h("button", { type: "button", class: "icon-button", "aria-label": "Dismiss", onclick: () => shown.remove() }, "×"));
  place.append(shown);
  setTimeout(() => shown.remove(), kind === "bad" ? SHOWN_MS * 2 : SHOWN_MS);
}
