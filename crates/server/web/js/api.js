// Requests to the server. Every answer that refuses something is an `ApiError` with a code, a message and a hint.

export class ApiError extends Error {
  /** @param {number} status @param {{ code?: string, message?: string, hint?: string | null }} body */
  constructor(status, body) {
    super(body.message ?? `The server answered ${status}`);
    this.status = status;
    this.code = body.code ?? "";
    this.hint = body.hint ?? "";
  }
}

/** Called when the server says that the login is over. Set by the app. */
export const onLogout = { run: () => {} };

/**
 * Sends a request and gives the JSON of its answer.
 * @param {string} method
 * @param {string} path
 * @param {any} [body] a value for JSON, or a `Blob` that is sent as it is
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function request(method, path, body, signal) {
  const isBlob = body instanceof Blob;
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  // A page of another origin cannot send this header without being asked first.
  if (method !== "GET") headers["X-Cellblock"] = "1";
  if (body !== undefined) headers["Content-Type"] = isBlob ? "application/octet-stream" : "application/json";
  const response = await fetch(path, { method, headers, body: body === undefined || isBlob ? body : JSON.stringify(body), signal });
  if (!response.ok) throw await refusal(response);
  const isJson = response.headers.get("content-type")?.includes("json");
  return isJson ? response.json() : response.text();
}

/** @param {Response} response */
async function refusal(response) {
  const body = await response.json().catch(() => ({}));
  if (response.status === 401) onLogout.run();
  return new ApiError(response.status, body);
}

/** @param {string} path @param {AbortSignal} [signal] */
export const get = (path, signal) => request("GET", path, undefined, signal);
/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => request("POST", path, body);
/** @param {string} path @param {any} body */
export const put = (path, body) => request("PUT", path, body);
/** @param {string} path */
export const remove = (path) => request("DELETE", path);

/** A path whose parts are escaped one by one: `path("v1", "sessions", id)`. @param {...string} parts */
export const path = (...parts) => `/${parts.map(encodeURIComponent).join("/")}`;

/**
 * Every cell of a session with its result. A session that ran no cell has no journal yet.
 * @param {string} address of the session
 * @returns {Promise<{ seq?: number | null, cells: any[] }>}
 */
export const journal = (address) => get(`${address}/journal`).catch((error) => {
  if (error instanceof ApiError && error.status === 404) return { cells: [] };
  throw error;
});

/** The address of a file of a session. @param {string} session @param {string} name */
export const fileAddress = (session, name) => `${path("v1", "sessions", session, "files")}/${name.split("/").map(encodeURIComponent).join("/")}`;
