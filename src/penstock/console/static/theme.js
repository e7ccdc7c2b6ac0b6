// @ts-check
// Light and dark. Colours are custom properties of style.css; canvases read them here.
//
//   theme()                 "light" | "dark": what is shown
//   toggleTheme()           the other one, kept for the next visit
//   colour("--ok")          the value now
//   onTheme(run)            called after each change; returns a function that ends it

const system = matchMedia("(prefers-color-scheme: dark)");
/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {Map<string, string>} */
const resolved = new Map();

export function theme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return system.matches ? "dark" : "light";
}

export function toggleTheme() {
  const next = theme() === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("penstock-theme", next);
  } catch {
    // Storage is blocked: the choice lasts until the page is closed.
  }
  announce();
}

/**
 * A canvas does not know custom properties or light-dark(): an element resolves them.
 * @param {string} name
 * @returns {string}
 */
export function colour(name) {
  const known = resolved.get(name);
  if (known) return known;
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.documentElement.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  resolved.set(name, value);
  return value;
}

/**
 * @param {() => void} run
 * @returns {() => void}
 */
export function onTheme(run) {
  listeners.add(run);
  return () => listeners.delete(run);
}

function announce() {
  resolved.clear();
  for (const run of listeners) run();
}

system.addEventListener("change", announce);
