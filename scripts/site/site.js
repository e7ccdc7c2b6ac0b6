// The search of the documentation, and the menu of narrow screens. A classic script: modules do not load from a folder.
"use strict";
(() => {
  const up = document.currentScript.dataset.up;
  const search = document.getElementById("search");
  const found = document.getElementById("found");
  const menu = document.getElementById("menu");
  const MOST = 12;

  // The index has all words of all pages: it is loaded when somebody searches.
  let loading = null;
  const load = () => {
    loading ??= new Promise((ready) => {
      const script = document.createElement("script");
      script.src = `${up}search.js`;
      script.onload = ready;
      document.head.append(script);
    });
    return loading;
  };

  const rank = (words, [, page, heading, text]) => {
    const [title, head, body] = [page, heading, text].map((each) => each.toLowerCase());
    let sum = 0;
    for (const word of words) {
      const one = (title.includes(word) ? 4 : 0) + (head.includes(word) ? 8 : 0) + (body.includes(word) ? 1 : 0);
      if (!one) return 0;
      sum += one;
    }
    return sum;
  };

  const line = ([address, page, heading, text], word) => {
    const link = document.createElement("a");
    link.href = up + address;
    const title = document.createElement("b");
    title.textContent = page === heading ? page : `${page}: ${heading}`;
    const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
    const said = document.createElement("span");
    said.textContent = text.slice(at, at + 160);
    link.append(title, said);
    return link;
  };

  const show = async () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found.hidden = !words.length;
    if (!words.length) return;
    await load();
    const ranked = window.sections.map((row) => [rank(words, row), row]).filter(([sum]) => sum);
    ranked.sort(([a], [b]) => b - a);
    const lines = ranked.slice(0, MOST).map(([, row]) => line(row, words[0]));
    if (!lines.length) {
      const none = document.createElement("p");
      none.textContent = "Nothing found. Try fewer or shorter words.";
      lines.push(none);
    }
    found.replaceChildren(...lines);
  };

  search.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      search.value = "";
      found.hidden = true;
    }
    if (event.key === "/" && document.activeElement !== search) {
      event.preventDefault();
      search.focus();
    }
  });
  menu.addEventListener("click", () => {
    const open = document.body.classList.toggle("menu-open");
    menu.setAttribute("aria-expanded", String(open));
  });
})();
