// @ts-check
// A market as Python code, in a dialog with a button that copies it.
// Hooks: [data-dialog=python] pre, [data-action=copy].

import { openDialog } from "./dialog.js";
import { h, icon } from "./dom.js";

/**
 * The same market as code. JSON's text literals are Python's too.
 * @param {string} exchange
 * @param {string} symbol
 * @param {string} interval
 */
export function pythonOf(exchange, symbol, interval) {
  const [name, from] = [JSON.stringify(symbol), JSON.stringify(exchange)];
  return [
    "import penstock",
    "",
    'data = penstock.open("penstock-data")  # the data folder of this server',
    `trades = data.trades(${name}, exchange=${from}, since="-1h").polars()`,
    `candles = data.candles(${JSON.stringify(interval)}, ${name}, exchange=${from}, from_trades=True).polars()`,
    `book = data.book(${name}, exchange=${from})`,
  ].join("\n");
}

/**
 * @param {import("../app.js").Context} ctx
 * @param {string} exchange
 * @param {string} symbol
 * @param {string} interval
 */
export function showPython(ctx, exchange, symbol, interval) {
  const text = pythonOf(exchange, symbol, interval);
  const copy = h("button", {
    type: "button", class: "button is-primary", "data-action": "copy",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        ctx.toast("Copied", "ok");
      } catch {
        ctx.toast("The browser does not permit copying here: select the text and copy it.", "bad");
      }
    },
  }, icon("copy"), "Copy");
  openDialog({
    name: "python", title: "As Python", wide: true, actions: [copy],
    body: [
      h("pre", { class: "code", tabindex: 0 }, text),
      h("p", { class: "muted" }, "Needs ", h("code", {}, "pip install 'penstock[lake]'"), ". Holes in the range are named by a warning."),
    ],
  });
}
