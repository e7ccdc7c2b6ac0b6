// @ts-check
// Modal dialogs on <dialog>: Esc closes, and the browser returns the focus to where it was.
//
//   openDialog({name, title, body: [nodes], actions?: [nodes], wide?}) → the <dialog data-dialog=name>
//   await confirmDialog({name, title, text, action: "Pause", danger?}) → boolean

import { h } from "./dom.js";

/**
 * @param {{name: string, title: string, body: (Node | string)[], actions?: Node[], wide?: boolean}} what
 * @returns {HTMLDialogElement}
 */
export function openDialog({ name, title, body, actions = [], wide = false }) {
  const heading = `dialog-${name}-title`;
  const dialog = h("dialog", { class: `dialog${wide ? " is-wide" : ""}`, "data-dialog": name, "aria-labelledby": heading },
    h("header", { class: "dialog-head" },
      h("h2", { id: heading }, title),
      h("button", { type: "button", class: "icon-button", "aria-label": "Close", onclick: () => dialog.close() }, "×")),
    h("div", { class: "dialog-body" }, ...body),
    actions.length ? h("footer", { class: "dialog-foot" }, ...actions) : null);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * @param {{name: string, title: string, text: string, action: string, danger?: boolean}} what
 * @returns {Promise<boolean>}
 */
export function confirmDialog({ name, title, text, action, danger = false }) {
  return new Promise((resolve) => {
    const dialog = openDialog({
      name,
      title,
      body: [h("p", {}, text)],
      actions: [
        h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"),
        h("button", {
          type: "button", class: `button ${danger ? "is-danger" : "is-primary"}`, "data-confirm": name,
          onclick: () => dialog.close("yes"),
        }, action),
      ],
    });
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"));
  });
}
