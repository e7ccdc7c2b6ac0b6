// @ts-check
// Requests to the API of the same server.
//
//   get("/overview")                       the document; null when the answer has no content
//   get("/gaps", {exchange: "binance"})    null, undefined and "" are left out of the query
//   send("POST", "/gaps/fill", {id})       for changes: adds the header that the server asks for
//   Each throws ApiError {status, message, problem, retryAfterS}: `message` is words to show as they are.
//   onUnauthorised(run)                    called when the session has ended (401), not for a wrong token

const ROOT = "/api/v1";
const TIMEOUT_MS = 20_000;

/** An answer that is an error, or no answer, in words to show. */
export class ApiError extends Error {
  /**
   * @param {number} status  0 when the server did not answer
   * @param {string} message
   * @param {any} [problem]  the problem document, if there was one
   * @param {number | null} [retryAfterS]  how long the server asks to wait
   */
  constructor(status, message, problem = null, retryAfterS = null) {
    super(message);
    this.status = status;
    this.problem = problem;
    this.retryAfterS = retryAfterS;
  }
}

/** @type {() => void} */
let unauthorised = () => {};

/** @param {() => void} run */
export function onUnauthorised(run) {
  unauthorised = run;
}

/**
 * @param {string} path
 * @param {Record<string, string | number | boolean | null | undefined>} [query]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export function get(path, query = {}, signal) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") asked.set(name, String(value));
  }
  const text = asked.toString();
  return request("GET", text ? `${path}?${text}` : path, undefined, signal);
}

/**
 * @param {"POST" | "PUT" | "DELETE"} method
 * @param {string} path
 * @param {any} [body]
 * @returns {Promise<any>}
 */
export function send(method, path, body) {
  return request(method, path, body);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {AbortSignal} [signal]
 */
async function request(method, path, body, signal) {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", "X-Penstock-Console": "1" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(ROOT + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    const words = timeout.aborted
      ? `The server did not answer within ${TIMEOUT_MS / 1000} s.`
      : "The server cannot be reached. Check that `penstock serve` is running.";
    throw new ApiError(0, words);
  }
  if (answer.ok) {
    const text = await answer.text();
    return text ? JSON.parse(text) : null;
  }
  const problem = await answer.json().catch(() => null);
  if (answer.status === 401 && path !== "/session") unauthorised();
  const wait = Number.parseInt(answer.headers.get("Retry-After") ?? "", 10);
  throw new ApiError(answer.status, words(answer.status, problem), problem, Number.isNaN(wait) ? null : wait);
}

/**
 * What a problem document says, or what its status means where it says nothing.
 * @param {number} status
 * @param {any} problem
 * @returns {string}
 */
export function words(status, problem) {
  const said = problem?.detail || problem?.title;
  if (typeof said === "string" && said) return said;
  const meaning = {
    401: "Sign in again: the session has ended.",
    403: "This session may look but not change anything. Sign in with a control token.",
    404: "The server does not know this. It may be an older version.",
    409: "Not possible in its present state. Reload and look again.",
    429: "Too many requests. Wait a little.",
    503: "The server is not ready yet. Try again in a moment.",
  }[status];
  return meaning ?? `The server answered with status ${status}.`;
}
