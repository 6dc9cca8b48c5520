/**
 * Requests to the server. Every failure is an `ApiError` with the server's own words.
 *
 * The cookie that `/login` sets identifies the page; scripts cannot read it.
 */

const BASE = "/api/v1";

/** An answer of the server that is not a result, or no answer at all. */
export class ApiError extends Error {
  /** @param {string} message @param {{status?: number, type?: string}} [about] */
  constructor(message, { status = 0, type = "" } = {}) {
    super(message);
    this.name = "ApiError";
    /** The HTTP status; 0 if the server cannot be reached. */
    this.status = status;
    /** The class of the error, such as `QueueFull`. */
    this.type = type;
  }
}

/**
 * Make a request and return the response, whatever its status.
 * @param {string} path
 * @param {{method?: string, body?: unknown, signal?: AbortSignal, accept?: string}} [options]
 */
export async function request(path, { method = "GET", body, signal, accept = "application/json" } = {}) {
  const headers = { Accept: accept, ...(body === undefined ? {} : { "Content-Type": "application/json" }) };
  try {
    return await fetch(`${BASE}${path}`, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError("the server does not answer; is `clew serve` running?");
  }
}

/** Read the error that a response carries. @param {Response} response */
export async function readError(response) {
  let message = `the server answered ${response.status}`;
  let type = "";
  try {
    const body = await response.json();
    message = body.message ?? message;
    type = body.type ?? "";
  } catch {
    // Not JSON, such as the page of a proxy: the status has to do.
  }
  return new ApiError(message, { status: response.status, type });
}

/** @param {string} path @param {Parameters<typeof request>[1]} [options] @returns {Promise<any>} */
async function call(path, options) {
  const response = await request(path, options);
  if (!response.ok) throw await readError(response);
  if (response.status === 204) return null;
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** @param {Record<string, string | number | boolean | null | undefined>} values */
function query(values) {
  const found = Object.entries(values).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(found.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/** @param {string} id */
const session = (id) => `/sessions/${encodeURIComponent(id)}`;

export const api = {
  health: () => call("/health"),
  models: () => call("/models"),
  roster: () => call("/roster"),
  listSessions: (limit = 100) => call(`/sessions${query({ limit })}`),
  /** @param {string} q */
  searchSessions: (q, limit = 30) => call(`/sessions/search${query({ q, limit })}`),
  createSession: (body = {}) => call("/sessions", { method: "POST", body }),
  /** @param {string} id */
  snapshot: (id) => call(session(id)),
  /** Delete a session, also while it is used: this page follows it. @param {string} id */
  deleteSession: (id) => call(`${session(id)}${query({ force: true })}`, { method: "DELETE" }),
  /** @param {string} id @param {object} body */
  fork: (id, body) => call(`${session(id)}/fork`, { method: "POST", body }),
  /** @param {string} id @param {number} after @param {number} limit */
  history: (id, after, limit) => call(`${session(id)}/history${query({ after, limit })}`),
  /** @param {string} id @param {object} body */
  submit: (id, body) => call(`${session(id)}/prompts`, { method: "POST", body }),
  /** @param {string} id @param {string} line */
  execute: (id, line) => call(`${session(id)}/lines`, { method: "POST", body: { line } }),
  /** @param {string} id */
  abort: (id) => call(`${session(id)}/abort`, { method: "POST", body: {} }),
  /** @param {string} id */
  cancelQueue: (id) => call(`${session(id)}/queue`, { method: "DELETE" }),
  /** @param {string} id @param {{request_id: string, approval: string, reply?: string}} body */
  answer: (id, body) => call(`${session(id)}/answers`, { method: "POST", body }),
  /** @param {string} id @param {"model" | "mode" | "name" | "language"} what @param {object} body */
  set: (id, what, body) => call(`${session(id)}/${what}`, { method: "PUT", body }),
  /** @param {string} id */
  commands: (id) => call(`/commands${query({ session_id: id })}`),
  /** @param {string} id @param {string} fragment */
  paths: (id, fragment, limit = 8) => call(`${session(id)}/paths${query({ fragment, limit })}`),
  /** @param {string} id @param {string} format */
  exportAddress: (id, format) => `${BASE}${session(id)}/export${query({ format })}`,

  /** @param {string} id */
  context: (id) => call(`${session(id)}/context`),
  /** @param {string} id @param {number} after */
  timeline: (id, after = 0) => call(`${session(id)}/context/timeline${query({ after })}`),
  /** @param {string} id @param {number} after @param {number} limit */
  entries: (id, after, limit) => call(`${session(id)}/context/entries${query({ after, limit })}`),
  /** @param {string} id @param {number} entry */
  compaction: (id, entry) => call(`${session(id)}/context/compactions/${entry}`),
  /** @param {string} id @param {object} body */
  preview: (id, body = {}) => call(`${session(id)}/context/preview`, { method: "POST", body }),
  /** @param {string} id @param {object} body */
  compact: (id, body = {}) => call(`${session(id)}/context/compact`, { method: "POST", body }),
  /** @param {string} id @param {number | null} entry */
  undo: (id, entry) => call(`${session(id)}/context/undo`, { method: "POST", body: entry === null ? {} : { entry_id: entry } }),
  /** @param {string} id @param {number} entry @param {boolean} pinned */
  pin: (id, entry, pinned) => call(`${session(id)}/context/pins/${entry}`, { method: pinned ? "PUT" : "DELETE" }),
  /** @param {string} id @param {string} q */
  recall: (id, q, limit = 30) => call(`${session(id)}/context/recall${query({ query: q, limit })}`),
  /** @param {string} id @param {object} body */
  simulate: (id, body = {}) => call(`${session(id)}/context/simulation`, { method: "POST", body }),

  /** @param {string} id */
  tasks: (id) => call(`${session(id)}/tasks`),
  /** @param {string} id @param {string} task @param {number} offset */
  taskLog: (id, task, offset = 0, limit = 200) =>
    call(`${session(id)}/tasks/${encodeURIComponent(task)}/log${query({ offset, limit })}`),
  /** @param {string} id @param {string} task @param {"cancel" | "close" | "send"} what @param {object} body */
  changeTask: (id, task, what, body = {}) =>
    call(`${session(id)}/tasks/${encodeURIComponent(task)}/${what}`, { method: "POST", body }),
};
