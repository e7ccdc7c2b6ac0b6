// @ts-check
// A bar that shows a used share of a limit, with an optional second mark (the exchange's own count).
//
//   const g = gauge({label: "binance 1 m weight"});
//   g.update({value: 4321, limit: 6000, mark: 4400, text?: "4,321 / 6,000", kind?: "ok"})
//   g.element  role=meter; data-kind ok below 70 %, warning below 90 %, bad from there

import { count } from "../format.js";
import { h, setAttribute } from "./dom.js";

/** @param {{label: string}} options */
export function gauge({ label }) {
  const fill = h("span", { class: "gauge-fill" });
  const mark = h("span", { class: "gauge-mark", hidden: true });
  const element = h("div", { class: "gauge", role: "meter", "aria-label": label, "aria-valuemin": 0 }, fill, mark);
  return {
    element,
    /** @param {{value: number | null, limit: number | null, mark?: number | null, text?: string, kind?: string}} now */
    update({ value, limit, mark: other = null, text, kind }) {
      const share = value !== null && limit ? Math.min(1, Math.max(0, value / limit)) : 0;
      fill.style.transform = `scaleX(${share})`;
      setAttribute(element, "data-kind", kind ?? (value === null ? "off" : share >= 0.9 ? "bad" : share >= 0.7 ? "warning" : "ok"));
      setAttribute(element, "aria-valuemax", limit === null ? null : String(limit));
      setAttribute(element, "aria-valuenow", value === null ? null : String(value));
      setAttribute(element, "aria-valuetext", text ?? `${count(value)} of ${count(limit)}`);
      mark.hidden = other === null || !limit;
      if (other !== null && limit) mark.style.left = `${Math.min(100, (other / limit) * 100)}%`;
    },
  };
}
