// @ts-check
// The shell: which page is shown, its live updates, session, theme, keyboard and banner.
//
// A page (pages/NAME.js) exports
//   title                  text, or (params) => text
//   topics                 names, or (params, query) => names, of what it watches on the live WebSocket
//   mount(root, ctx)       builds it; returns {update(topic, data, meta), failed?(topic, words), unmount()}
// `ctx`: see Context below. `meta` is {seq, at_ms, missed}. Elements with `data-control` are hidden
// for a session that may only read (ctx.control is false then).
//
// Hooks for tests: html[data-scope], main[data-page][data-ready], #live[data-live=live|late|connecting],
// #banner[data-banner=offline|version|skew], nav a[data-nav=NAME], dialog[data-dialog].

import * as api from "./api.js";
import { duration, setTime, utcTime } from "./format.js";
import { startKeys } from "./keys.js";
import { Live } from "./live.js";
import { h, icon, replace, setText } from "./parts/dom.js";
import { errorState, skeleton } from "./parts/states.js";
import { toast } from "./parts/toast.js";
import { documentOf, match, PAGES, path } from "./router.js";
import { onTheme, toggleTheme } from "./theme.js";

/**
 * @typedef {Object} Context
 * @property {Record<string, string>} params  of the path
 * @property {URLSearchParams} query
 * @property {typeof api} api
 * @property {() => number} now  the server's clock, in epoch milliseconds
 * @property {() => boolean} isLive  false: what is shown may be old
 * @property {boolean} control  false: this session may not change anything
 * @property {(path: string, options?: {replace?: boolean}) => void} navigate
 * @property {(changes: Record<string, string | null>) => void} setQuery  keeps filters in the address
 * @property {(text: string, kind?: "ok" | "bad" | "info", link?: {text: string, href?: string, run?: () => void}) => void} toast
 * @property {(run: () => void) => () => void} onTheme
 * @property {(topics: string[]) => void} watch  other topics than at the start
 * @property {() => Promise<void>} signedIn  to be called after a new session began
 * @typedef {{update: (topic: string, data: any, meta: {seq: number, at_ms: number, missed: number}) => void, failed?: (topic: string, words: string) => void, unmount: () => void}} Mounted
 * @typedef {{title: string | ((params: Record<string, string>) => string), topics: string[] | ((params: Record<string, string>, query: URLSearchParams) => string[]), mount: (root: HTMLElement, ctx: Context) => Mounted}} Page
 */

const main = element("main");
const session = { needed: false, scope: "read", known: false };
/** @type {Mounted | null} */
let mounted = null;
let turn = 0;
let version = "";
let isOutdated = false;

/** @param {string} id @returns {HTMLElement} */
function element(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no #${id}`);
  return found;
}

const live = new Live({
  url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/v1/live`,
  allowed: () => session.known && session.scope !== "",
  onUpdate: ({ topic, data, error, seq, at_ms, missed }) => {
    if (!mounted) return;
    if (error === null) mounted.update(topic, data, { seq, at_ms, missed });
    else if (mounted.failed) mounted.failed(topic, error);
    else toast(`${topic}: ${error}`, "bad");
  },
  onState: showLive,
  onHello: (hello) => {
    isOutdated = version !== "" && hello.version !== version;
    version ||= hello.version;
    setText(element("version"), `version ${hello.version}`);
    showBanner();
  },
  onClosed: () => {
    if (live.state.attempt > 1) void readWithoutSocket();
  },
});

/**
 * Some networks let requests through but no WebSocket: then the page is read again at each attempt.
 * This also finds out that the session has ended.
 */
async function readWithoutSocket() {
  const mine = turn;
  if (!(await loadSession()) || !session.scope) return;
  for (const topic of live.topics) {
    const from = documentOf(topic);
    const data = from && (await api.get(from).catch(() => null));
    if (mine !== turn || live.state.live) return;
    if (data) mounted?.update(topic, data, { seq: 0, at_ms: live.now(), missed: 0 });
  }
}

function showLive() {
  const { live: isLive, missed, attempt } = live.state;
  const late = Math.max(0, Date.now() - live.state.since_ms);
  const pill = element("live");
  const isLate = !isLive && (version !== "" || attempt > 1);
  const state = isLive ? "live" : isLate ? "late" : "connecting";
  if (pill.dataset.live !== state) pill.dataset.live = state;
  setText(element("live-text"), isLive ? "live" : isLate ? "not live" : "connecting");
  // What changes each second is not read out.
  setText(element("live-more"), isLive ? (missed ? `· ${missed} skipped` : "") : isLate ? `· ${whole(late)}` : "");
  pill.title = isLive
    ? `Updates arrive. ${missed} were skipped because newer ones were already there.`
    : "No update arrives: what is shown may be old.";
  showBanner();
}

function showBanner() {
  const banner = element("banner");
  const { live: isLive, skew_ms, retry_at_ms, attempt } = live.state;
  const kind = !isLive && (version || attempt > 1) ? "offline"
    : isOutdated ? "version" : Math.abs(skew_ms) > 5000 ? "skew" : "";
  document.documentElement.classList.toggle("is-late", kind === "offline");
  if (kind === "offline") {
    const left = retry_at_ms === null ? 0 : Math.max(0, Math.ceil((retry_at_ms - Date.now()) / 1000));
    const next = left > 0 ? `Trying again in ${left} s.` : "Trying again.";
    banner.title = next;
  }
  if (banner.dataset.banner === kind) return;
  banner.dataset.banner = kind;
  banner.hidden = kind === "";
  if (kind === "offline") {
    replace(banner, icon("warning"), h("strong", {}, "Not live."), " No updates arrive: what is shown may be old. The page reconnects by itself; if it does not, check that ", h("code", {}, "penstock serve"), " is running.");
  } else if (kind === "version") {
    replace(banner, "The server has another version than this page. ",
      h("button", { type: "button", class: "button small", onclick: () => location.reload() }, "Reload"));
  } else if (kind === "skew") {
    const off = duration(Math.abs(skew_ms));
    replace(banner, icon("warning"), `This computer's clock is ${off} ${skew_ms > 0 ? "behind" : "ahead of"} the server's. Times here follow the server.`);
  }
}

/** @param {number} ms */
function whole(ms) {
  return ms < 60_000 ? `${Math.floor(ms / 1000)} s` : duration(ms);
}

/** @returns {Promise<boolean>}  whether the server answered */
async function loadSession() {
  let isThere = true;
  try {
    const found = await api.get("/session");
    session.needed = Boolean(found?.needed);
    session.scope = found?.scope ?? (session.needed ? "" : "control");
    session.known = true;
  } catch (error) {
    if (!(error instanceof api.ApiError)) throw error;
    isThere = error.status !== 0;
    // A server without sessions gives no document; one that is down is asked again later.
    if (error.status === 404) Object.assign(session, { needed: false, scope: "control", known: true });
  }
  document.documentElement.dataset.scope = session.scope === "control" ? "control" : "read";
  element("leave").hidden = !session.needed || !session.scope;
  if (session.known && session.needed && !session.scope) toLogin();
  return isThere;
}

function toLogin() {
  if (location.pathname === "/login") return;
  const next = location.pathname + location.search;
  navigate(`/login?next=${encodeURIComponent(next)}`, { replace: true });
}

/**
 * @param {string} to
 * @param {{replace?: boolean}} [options]
 */
function navigate(to, options = {}) {
  const url = new URL(to, location.href);
  if (url.origin !== location.origin) return;
  if (options.replace) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  scrollTo(0, 0);
  void show();
}

/** @param {Record<string, string | null>} changes  null or "" removes one */
function setQuery(changes) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(changes)) {
    if (value) url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  history.replaceState(null, "", url);
}

async function show() {
  const mine = ++turn;
  const route = match(location.pathname);
  mounted?.unmount();
  mounted = null;
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  if (mine > 1) main.focus({ preventScroll: true });
  main.dataset.ready = "false";
  main.dataset.page = route?.page ?? "unknown";
  for (const link of document.querySelectorAll("[data-nav]")) {
    const isHere = link.getAttribute("data-nav") === route?.page;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    if (isHere) link.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  document.body.classList.toggle("is-login", route?.page === "login");
  if (!route) {
    live.watch([]);
    setTitle("Not found");
    replace(main, errorState({
      title: "There is no such page",
      text: `${location.pathname} is not a page of the console.`,
      action: { text: "Go to the overview", run: () => navigate("/") },
    }));
    main.dataset.ready = "true";
    return;
  }
  replace(main, skeleton());
  /** @type {Page} */
  let page;
  try {
    page = await import(`./pages/${route.page}.js`);
  } catch (error) {
    if (mine !== turn) return;
    replace(main, errorState({
      title: "The page could not be loaded",
      text: `${error instanceof Error ? error.message : error}`,
      action: { text: "Load again", run: () => location.reload() },
    }));
    main.dataset.ready = "true";
    return;
  }
  if (mine !== turn) return;
  setTitle(typeof page.title === "function" ? page.title(route.params) : page.title);
  replace(main);
  mounted = page.mount(main, {
    params: route.params,
    query: new URLSearchParams(location.search),
    api,
    now: () => live.now(),
    isLive: () => live.state.live,
    control: session.scope === "control",
    navigate,
    setQuery,
    toast,
    onTheme,
    watch: (topics) => live.watch(topics),
    signedIn: async () => {
      await loadSession();
      live.hurry();
    },
  });
  const query = new URLSearchParams(location.search);
  live.watch(typeof page.topics === "function" ? page.topics(route.params, query) : page.topics);
  main.dataset.ready = "true";
}

/** @param {string} text */
function setTitle(text) {
  setText(element("title"), text);
  document.title = `${text} · penstock`;
}

function buildNavigation() {
  const groups = [...new Set(PAGES.map((page) => page.group))];
  replace(element("nav"), ...groups.map((group) =>
    h("div", { class: "nav-group", role: "group", "aria-label": group },
      h("span", { class: "nav-title", "aria-hidden": "true" }, group),
      ...PAGES.filter((page) => page.group === group).map((page) =>
        h("a", { href: path(page.name), "data-nav": page.name, title: `${page.title} (g ${page.key})` },
          icon(page.name), h("span", {}, page.title))))));
}

function followLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.origin !== location.origin) return;
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
    if (link.hash === "#main") {
      event.preventDefault(); // it would be a step of the history, and the page be built anew
      main.focus();
    }
    if (link.target || link.hash || link.pathname.startsWith("/api/")) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
  addEventListener("popstate", () => void show());
}

async function leave() {
  await api.send("DELETE", "/session").catch(() => null);
  session.scope = "";
  navigate("/login");
}

function tick() {
  const clock = /** @type {HTMLTimeElement} */ (element("clock"));
  const now = Math.floor(live.now() / 1000) * 1000;
  setTime(clock, now, `${utcTime(now)} UTC`);
  if (!live.state.live) showLive();
}

async function start() {
  buildNavigation();
  followLinks();
  startKeys({ navigate, toggleTheme, version: () => version });
  element("theme").addEventListener("click", toggleTheme);
  element("leave").addEventListener("click", () => void leave());
  api.onUnauthorised(() => {
    session.scope = "";
    toLogin();
  });
  setInterval(tick, 250);
  tick();
  await loadSession();
  live.hurry();
  if (!turn) void show(); // unless the session sent us to the login page
}

void start();
