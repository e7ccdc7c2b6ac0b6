// @ts-check
// Small builder of elements. Text always goes in as text nodes, so no markup in data can become
// elements.
//
//   h("button", {class: "button", "data-action": "fill", onclick: fill}, "Fill")
//   svg("path", {d: "M0 0"})        the same for SVG
//   setText(node, text)             writes only when the text differs
//   replace(node, ...children)      replaces all children
//   refresh(node, ...children)      replaces only those that differ: focus and selections in the others stay
//   frame(draw)                     runs `draw` at most once per animation frame
//   visible(element, changed)       says when the element comes into view or leaves it

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @param {Element} element
 * @param {Record<string, any>} props
 */
function assign(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (name === "class") {
      element.setAttribute("class", String(value));
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  assign(element, props);
  add(element, children);
  return element;
}

/**
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, props = {}, ...children) {
  const element = /** @type {SVGElement} */ (
    document.createElementNS("http://www.w3.org/2000/svg", tag)
  );
  assign(element, props);
  add(element, children);
  return element;
}

/**
 * One of the icons of index.html, as decoration.
 * @param {string} name
 */
export function icon(name) {
  return svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));
}

/**
 * @param {Node} parent
 * @param {(Child | Child[])[]} children
 */
function add(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/**
 * @param {Element} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * @param {Element} node
 * @param {string} name
 * @param {string | null} value  null removes it
 */
export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/**
 * @param {Element} node
 * @param {...(Child | Child[])} children
 */
export function replace(node, ...children) {
  node.replaceChildren();
  add(node, children);
}

/**
 * For what is written again and again. What is equal stays, with its listeners: these must not
 * depend on what was known when they were made.
 * @param {Element} node
 * @param {...(Child | Child[])} children
 */
export function refresh(node, ...children) {
  const fresh = document.createDocumentFragment();
  add(fresh, children);
  const next = [...fresh.childNodes];
  next.forEach((one, i) => {
    const old = node.childNodes[i];
    if (!old) node.append(one);
    else if (!old.isEqualNode(one)) old.replaceWith(one);
  });
  while (node.childNodes.length > next.length) node.lastChild?.remove();
}

/**
 * @param {() => void} draw
 * @returns {() => void}  asks for a drawing; any number of requests before a frame give one
 */
export function frame(draw) {
  let asked = 0;
  return () => {
    if (asked) return;
    asked = requestAnimationFrame(() => {
      asked = 0;
      draw();
    });
  };
}

/**
 * @param {Element} element
 * @param {(isVisible: boolean) => void} changed
 * @returns {() => void}  ends the watch
 */
export function visible(element, changed) {
  const observer = new IntersectionObserver((entries) => {
    changed(entries[entries.length - 1].isIntersecting);
  });
  observer.observe(element);
  return () => observer.disconnect();
}
