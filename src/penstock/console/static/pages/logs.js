// @ts-check
// Logs: the newest lines of all processes, filtered; scrolling up holds them still.
//
// Hooks: [data-choice=level] button[data-value=|info|warning|error], select[data-field=process], input[data-filter],
// [data-list=logs] li[data-level][data-event], li[data-hole] where lines were missed, dl[data-fields] of a line that
// was opened; button[data-action=follow] [data-action=older]; [data-field=count], [data-follow=true|false].

import { count, time, utcTime } from "../format.js";
import { badge } from "../parts/badge.js";
import { card, chooser } from "../parts/card.js";
import { frame, h, icon, refresh, replace, setText } from "../parts/dom.js";
import { LogLines, matches, summary } from "../parts/log-lines.js";
import { emptyState, errorState, skeleton } from "../parts/states.js";

export const title = "Logs";
export const topics = ["logs"];

const MOST = 2000;
const MOST_FOUND = 5000;
const PAGE = 500;
const MOST_PAGES = 20;
const NEAR_PX = 24;
const OVERLAP_PX = 60;
const KINDS = /** @type {Record<string, import("../parts/badge.js").Kind>} */ ({ debug: "off", info: "info", warning: "warning", error: "bad", critical: "bad" });

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  const log = new LogLines(MOST);
  const asked = { level: ctx.query.get("level") ?? "", process: ctx.query.get("process") ?? "", text: ctx.query.get("text") ?? "" };
  /** @type {Map<string, HTMLLIElement>} */
  const built = new Map();
  /** Older lines that were asked for; only with the present filter. @type {import("../parts/log-lines.js").Line[]} */
  let found = [];
  /** Where the page after them begins. @type {string | null} */
  let token = null;
  let isAll = false;
  /** Grows with each change of the filter: an answer to an earlier one is not used. */
  let asking = 0;
  let follows = true;
  let unseen = 0;
  /** Where the list was when it was last scrolled. */
  let top = 0;

  const level = chooser({
    label: "Least level", name: "level", value: asked.level,
    options: [{ value: "", text: "All" }, { value: "info", text: "Info" }, { value: "warning", text: "Warnings" }, { value: "error", text: "Errors" }],
    change: (value) => {
      asked.level = value;
      filterChanged();
    },
  });
  const process = h("select", {
    class: "input", "data-field": "process", "aria-label": "Process",
    onchange: () => {
      asked.process = process.value;
      filterChanged();
    },
  }, h("option", { value: "" }, "All processes"));
  const text = h("input", {
    type: "search", class: "input", "data-filter": true, placeholder: "Filter", "aria-label": "Filter lines", autocomplete: "off", value: asked.text,
    oninput: () => {
      asked.text = text.value.trim();
      filterChanged();
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape" || !text.value) return;
      text.value = asked.text = "";
      filterChanged();
    },
  });
  const counted = h("span", { class: "table-count", "data-field": "count" });
  const list = h("ol", { class: "log-lines", "data-list": "logs", tabindex: 0, "aria-label": "Log lines, newest last" });
  const follow = h("button", { type: "button", class: "button small is-primary log-follow", "data-action": "follow", hidden: true, onclick: () => setFollow(true) });
  const older = h("button", { type: "button", class: "button small", "data-action": "older", title: "Older lines that match the filter", onclick: () => void askOlder() }, "Older");
  const nothing = h("div", { hidden: true });
  const waiting = h("div", {}, skeleton(10));
  const content = h("div", { hidden: true },
    card({ title: "Logs", sub: "of all processes of this data folder", name: "logs" },
      h("div", { class: "table-bar" }, h("span", { class: "search" }, icon("search"), text), level.element, process, older, counted),
      h("div", { class: "log-box", "data-follow": "true" }, list, nothing, follow)));
  root.append(waiting, content);
  const box = /** @type {HTMLElement} */ (list.parentElement);

  list.addEventListener("scroll", () => {
    const isNear = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_PX;
    const isUp = list.scrollTop < top;
    top = list.scrollTop;
    if (isNear !== follows && (isNear || isUp)) setFollow(isNear);
    // Lines that came into view were higher than thought: nobody scrolled.
    else if (follows && !isNear) toNewest();
  }, { passive: true });
  const draw = frame(show);

  /** @param {boolean} now */
  function setFollow(now) {
    follows = now;
    box.dataset.follow = String(now);
    if (now) {
      unseen = 0;
      draw();
    }
    showFollow();
  }

  function showFollow() {
    follow.hidden = follows;
    setText(follow, unseen ? `${count(unseen)} new ${unseen === 1 ? "line" : "lines"} ↓` : "Held. Go to the newest ↓");
  }

  function filterChanged() {
    ctx.setQuery(asked);
    asking += 1;
    found = [];
    token = null;
    isAll = older.disabled = false;
    setFollow(true);
  }

  function showProcesses() {
    const names = [...new Set([...found, ...log.lines].flatMap((line) => (line.hole ? [] : [line.process])))].sort();
    if (asked.process && !names.includes(asked.process)) names.push(asked.process);
    const form = names.join("\n");
    if (process.dataset.form === form) return;
    process.dataset.form = form;
    replace(process, h("option", { value: "" }, "All processes"), ...names.map((name) => h("option", { value: name }, name)));
    process.value = asked.process;
  }

  function show() {
    const chosen = [...found, ...log.lines].filter((line) => matches(line, asked));
    const wanted = new Set(chosen.map((line) => line.key));
    for (const [key, line] of built) {
      if (wanted.has(key)) continue;
      line.remove();
      built.delete(key);
    }
    /** @type {Element | null} */
    let before = null;
    for (const line of chosen) {
      const element = built.get(line.key) ?? build(line);
      if (before ? before.nextElementSibling !== element : list.firstElementChild !== element) {
        if (before) before.after(element);
        else list.prepend(element);
      }
      before = element;
    }
    const lines = chosen.filter((line) => !line.hole).length;
    const all = [...found, ...log.lines].filter((line) => !line.hole).length;
    setText(counted, lines === all ? `${count(all)} lines` : `${count(lines)} of ${count(all)} lines`);
    list.hidden = !lines;
    nothing.hidden = lines > 0;
    if (!lines) {
      refresh(nothing, all
        ? emptyState({ title: "No line matches the filter", text: `Of the ${count(all)} newest lines.`, action: { text: "Look in older lines", run: () => void askOlder() } })
        : emptyState({ title: "No lines yet", text: "Processes keep their lines in the data folder, and this page shows those of the server's folder. Run all processes of a machine: `penstock up`" }));
    }
    if (follows) toNewest();
  }

  function toNewest() {
    list.scrollTop = list.scrollHeight;
    top = list.scrollTop;
  }

  /** @param {import("../parts/log-lines.js").Line | import("../parts/log-lines.js").Hole} line */
  function build(line) {
    const element = line.hole
      ? h("li", { class: "log-hole", "data-hole": true }, "Lines may be missing here: more were written than are sent at once, or the page was not connected.")
      : lineOf(line);
    built.set(line.key, element);
    return element;
  }

  /** Asks for lines before those that are shown, page by page, until some match the filter. */
  async function askOlder() {
    older.disabled = true;
    const mine = asking;
    try {
      for (let pages = 0; pages < MOST_PAGES; pages += 1) {
        const { items, next } = await ctx.api.get("/logs", { ...asked, after: token, limit: PAGE });
        if (mine !== asking) return;
        token = next;
        isAll = next === null;
        const before = log.older(items);
        found = [...before, ...found];
        if (before.length || isAll) break;
      }
      if (isAll) ctx.toast("These are all lines that the processes have kept and that match.", "info");
      setFollow(false);
      const height = list.scrollHeight;
      show();
      // The newest of them are in view, above the line that was the first until now.
      list.scrollTop = list.scrollHeight - height - list.clientHeight + OVERLAP_PX;
    } catch (error) {
      if (mine === asking) ctx.toast(error instanceof Error ? error.message : String(error), "bad");
    } finally {
      if (mine === asking) older.disabled = isAll || found.length >= MOST_FOUND;
    }
  }

  return {
    /** @param {string} _topic @param {any} now */
    update(_topic, now) {
      waiting.hidden = true;
      content.hidden = false;
      const added = log.add(now.items);
      if (!added && log.lines.length) return;
      showProcesses();
      if (!follows) {
        unseen += added;
        showFollow();
        return;
      }
      draw();
    },
    /** @param {string} _topic @param {string} words */
    failed(_topic, words) {
      if (!content.hidden) return ctx.toast(words, "bad");
      refresh(waiting, errorState({ title: "The logs could not be read", text: words }));
    },
    unmount() {
      asking += 1;
      built.clear();
    },
  };
}

/** @param {import("../parts/log-lines.js").Line} line */
function lineOf(line) {
  const button = h("button", { type: "button", class: "log-line", "aria-expanded": "false", onclick: toggle },
    time(line.at_ms, utcTime(line.at_ms, true)), badge(line.level, KINDS[line.level] ?? "off"), h("span", { class: "log-process" }, line.process),
    h("strong", {}, line.event), h("span", { class: "log-words" }, summary(line.fields)));
  const element = h("li", { "data-level": line.level, "data-event": line.event }, button);

  function toggle() {
    if (getSelection()?.toString()) return;
    const isOpen = button.getAttribute("aria-expanded") !== "true";
    button.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) return element.lastElementChild?.remove();
    const fields = Object.entries(line.fields ?? {});
    element.append(h("dl", { class: "log-fields", "data-fields": true },
      h("dt", {}, "time"), h("dd", {}, time(line.at_ms)),
      ...fields.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "string" ? value : JSON.stringify(value))]),
      fields.length ? null : h("dd", { class: "muted" }, "This line has no fields.")));
  }

  return element;
}
