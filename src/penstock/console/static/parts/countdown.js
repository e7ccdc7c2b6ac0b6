// @ts-check
// The time until something, in whole seconds, so that it counts down evenly. Pure.
//
//   countdown(59_200)   "60 s"       countdown(125_000)   "2 m 5 s"       countdown(-5)   "0 s"

import { duration } from "../format.js";

/** @param {number} ms @returns {string} */
export function countdown(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return seconds <= 60 ? `${seconds} s` : duration(seconds * 1000);
}
