// @ts-check
// Short messages in the corner; read out by screen readers.
//
//   toast("Job made", "ok", {text: "Show it", href: "/jobs/17"})
//   toast("Job paused", "ok", {text: "Undo", run: resume})      [data-action=toast]; it goes then

import { h } from "./dom.js";

const SHOWN_MS = 6000;
const MOST = 4;

/**
 * @param {string} text
 * @param {"ok" | "bad" | "info"} [kind]
 * @param {{text: string, href?: string, run?: () => void}} [link]
 */
export function toast(text, kind = "info", link) {
  const place = document.getElementById("toasts");
  if (!place) return;
  // A read that fails each second says so once, not each second.
  if (kind === "bad" && [...place.children].some((one) => one.firstElementChild?.textContent === text)) return;
  while (place.children.length >= MOST) place.firstElementChild?.remove();
  const shown = h("div", { class: `toast is-${kind}`, "data-toast": kind },
    h("span", {}, text),
    link && (link.href
      ? h("a", { href: link.href }, link.text)
      : h("button", { type: "button", class: "button small", "data-action": "toast", onclick: () => (shown.remove(), link.run?.()) }, link.text)),
    h("button", { type: "button", class: "icon-button", "aria-label": "Dismiss", onclick: () => shown.remove() }, "×"));
  place.append(shown);
  setTimeout(() => shown.remove(), kind === "bad" ? SHOWN_MS * 2 : SHOWN_MS);
}
