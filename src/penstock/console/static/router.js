// @ts-check
// Paths of the console and the page each shows. Pure.
//
//   match("/market/binance/BTC%2FUSDT")  {page: "market", params: {exchange: "binance", symbol: "BTC/USDT"}}
//   path("market", "binance", "BTC/USDT")  "/market/binance/BTC%2FUSDT"
//   documentOf("market/binance/BTC/USDT")  the path of the API that gives the document of a topic
//   PAGES: name, title, key after `g`, group in the navigation, icon

/** @type {{name: string, title: string, key: string, group: string}[]} */
export const PAGES = [
  { name: "overview", title: "Overview", key: "o", group: "Data" },
  { name: "market", title: "Market", key: "m", group: "Data" },
  { name: "coverage", title: "Coverage", key: "c", group: "Data" },
  { name: "jobs", title: "Jobs", key: "j", group: "Work" },
  { name: "limits", title: "Limits", key: "l", group: "Work" },
  { name: "connections", title: "Connections", key: "n", group: "Work" },
  { name: "processes", title: "Processes", key: "p", group: "System" },
  { name: "storage", title: "Storage", key: "s", group: "System" },
  { name: "logs", title: "Logs", key: "r", group: "System" },
  { name: "config", title: "Config", key: "f", group: "System" },
];

/** The parameters that may follow a page's name in the path. */
const PARAMS = /** @type {Record<string, string[]>} */ ({
  market: ["exchange", "symbol"],
  jobs: ["id"],
});

/** @typedef {{page: string, params: Record<string, string>}} Route */

/**
 * @param {string} pathname
 * @returns {Route | null}
 */
export function match(pathname) {
  const parts = pathname.split("/").filter(Boolean);
  if (!parts.length) return { page: "overview", params: {} };
  const [page, ...given] = parts;
  const isKnown = page === "login" || PAGES.some((one) => one.name === page);
  const names = PARAMS[page] ?? [];
  if (!isKnown || given.length > names.length || (page === "market" && given.length === 1)) {
    return null;
  }
  try {
    const params = Object.fromEntries(given.map((part, i) => [names[i], decodeURIComponent(part)]));
    return { page, params };
  } catch {
    return null; // a percent sign that encodes nothing
  }
}

/**
 * @param {string} page
 * @param {...string} params
 */
export function path(page, ...params) {
  if (page === "overview") return "/";
  return `/${[page, ...params].map(encodeURIComponent).join("/")}`;
}

/**
 * @param {string} topic  of the live WebSocket
 * @returns {string | null}  null: it is only sent live
 */
export function documentOf(topic) {
  if (topic === "coverage") return null;
  if (topic === "jobs") return "/jobs/summary";
  const [name, exchange, ...rest] = topic.split("/");
  if (name !== "market") return `/${topic}`;
  const [symbol, query] = rest.join("/").split("?");
  return `/market/${encodeURIComponent(exchange)}/${encodeURIComponent(symbol)}${query ? `?${query}` : ""}`;
}
