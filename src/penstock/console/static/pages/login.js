// @ts-check
// Login: a token becomes a session cookie, which scripts cannot read.
//
// Hooks: form[data-form=login], input[data-field=token], button[data-action=login], [data-field=problem],
// [data-field=wait] while the server accepts no tokens.

import { h, icon, setText } from "../parts/dom.js";

export const title = "Sign in";
export const topics = /** @type {string[]} */ ([]);

/**
 * The page to show after signing in: a path of this server, never another site. Pure.
 * @param {string | null} next
 * @returns {string}
 */
export function nextPath(next) {
  if (!next || !/^\/(?![/\\])/.test(next) || next.startsWith("/login")) return "/";
  return next;
}

/**
 * @param {HTMLElement} root
 * @param {import("../app.js").Context} ctx
 */
export function mount(root, ctx) {
  let until = 0;
  const token = h("input", {
    class: "input", type: "password", name: "token", id: "token", required: true, autocomplete: "current-password", spellcheck: "false",
    autocapitalize: "off", "data-field": "token", "aria-describedby": "login-problem",
  });
  const button = h("button", { class: "button is-primary", type: "submit", "data-action": "login" }, "Sign in");
  const problem = h("p", { class: "notice is-bad", id: "login-problem", role: "alert", "data-field": "problem", hidden: true });
  const wait = h("p", { class: "muted small", "data-field": "wait", hidden: true });
  const shown = h("button", {
    class: "button small", type: "button", "aria-pressed": "false",
    onclick: () => {
      const isShown = token.type === "password";
      token.type = isShown ? "text" : "password";
      shown.setAttribute("aria-pressed", String(isShown));
      setText(shown, isShown ? "Hide" : "Show");
    },
  }, "Show");
  const form = h("form", { class: "card login", "data-form": "login", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void signIn()) },
    h("div", { class: "login-head" }, logo(), h("h1", {}, "Sign in to penstock")),
    h("label", { class: "field", for: "token" }, "Token"),
    h("div", { class: "login-token" }, token, shown),
    problem, wait, button,
    h("p", { class: "muted small" }, "The token is that of ", h("code", {}, "api.token"), ", or of ", h("code", {}, "api.read_token"),
      " to look without changing anything. Whoever started the server has set it: ", h("code", {}, "PENSTOCK_API_TOKEN"), "."));
  root.append(h("div", { class: "login-page" }, form));
  token.focus();

  /** @param {string} words */
  function refuse(words) {
    setText(problem, words);
    problem.hidden = !words;
  }

  async function signIn() {
    if (button.disabled) return;
    button.disabled = true;
    refuse("");
    try {
      await ctx.api.send("POST", "/session", { token: token.value });
    } catch (error) {
      const failure = /** @type {any} */ (error);
      button.disabled = false;
      refuse(failure.status === 401 ? "This token is wrong. Check that all of it was copied." : error instanceof Error ? error.message : String(error));
      if (failure.status === 429) hold(failure.retryAfterS ?? 1);
      token.select();
      return;
    }
    await ctx.signedIn();
    ctx.navigate(nextPath(ctx.query.get("next")), { replace: true });
  }

  /** @param {number} seconds */
  function hold(seconds) {
    until = Date.now() + Math.max(1, seconds) * 1000;
    tick();
  }

  function tick() {
    const left = Math.ceil((until - Date.now()) / 1000);
    button.disabled = left > 0;
    wait.hidden = left <= 0;
    if (left > 0) setText(wait, `You can try again in ${left} s.`);
    else if (problem.textContent?.startsWith("Too many")) refuse("");
  }

  const timer = setInterval(() => {
    if (until) tick();
    if (until && Date.now() >= until) until = 0;
  }, 200);
  return {
    update() {},
    unmount: () => clearInterval(timer),
  };
}

function logo() {
  const found = icon("logo");
  found.setAttribute("class", "logo");
  return found;
}
