// @ts-check
// The keyboard: `g` and a letter goes to a page, `/` to the page's filter, `t` switches light and
// dark, `?` shows the help. Keys typed into a field stay there.

import { h } from "./parts/dom.js";
import { openDialog } from "./parts/dialog.js";
import { PAGES, path } from "./router.js";

const CHORD_MS = 1500;

/**
 * @param {{navigate: (path: string) => void, toggleTheme: () => void, version: () => string}} shell
 */
export function startKeys(shell) {
  let chordAt = -CHORD_MS;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const isChord = event.timeStamp - chordAt < CHORD_MS;
    chordAt = -CHORD_MS;
    if (isChord) {
      const page = PAGES.find((one) => one.key === event.key);
      if (!page) return;
      event.preventDefault();
      shell.navigate(path(page.name));
    } else if (event.key === "g") {
      chordAt = event.timeStamp;
    } else if (event.key === "/") {
      const field = document.querySelector("main [data-filter]");
      if (!(field instanceof HTMLInputElement)) return;
      event.preventDefault();
      field.focus();
      field.select();
    } else if (event.key === "t") {
      shell.toggleTheme();
    } else if (event.key === "?") {
      showHelp(shell.version());
    }
  });
  document.getElementById("help")?.addEventListener("click", () => showHelp(shell.version()));
}

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && Boolean(target.closest("input, textarea, select, [contenteditable]"));
}

/** @param {string} version */
function showHelp(version) {
  const keys = [
    ...PAGES.map((page) => [`g ${page.key}`, page.title]),
    ["/", "Filter of the page"], ["t", "Light or dark"], ["?", "This help"],
    ["↑ ↓ ← →", "Move in tables and maps"], ["Enter", "Open what is selected"], ["Esc", "Close, clear the filter"],
  ];
  openDialog({
    name: "help",
    title: "Help",
    body: [
      h("p", {}, "Times are in UTC; rest the pointer on one to see your local time. A dash means unknown, never zero."),
      h("dl", { class: "keys" }, ...keys.flatMap(([key, what]) => [
        h("dt", {}, ...key.split(" ").map((one) => h("kbd", {}, one))), h("dd", {}, what),
      ])),
      h("p", { class: "muted" }, version ? `penstock ${version}. ` : "", "The same facts as text: ", h("code", {}, "penstock top"), ", ", h("code", {}, "penstock doctor"), "."),
    ],
  });
}
