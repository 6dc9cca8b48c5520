/**
 * The stream of a session's events: server-sent events, read with `fetch`.
 *
 * `EventSource` cannot send a header and hides the status of a refusal, so the page reads the
 * stream itself. After a break it continues behind the last event that it has.
 */

import { ApiError, readError, request } from "./api.js";

const FIRST_DELAY = 250;
const LONGEST_DELAY = 10_000;
const SILENCE = 45_000; // The server sends a comment every 15 seconds.

/**
 * Split a stream of server-sent events into its messages. Pure: it keeps what is incomplete.
 * @returns {(text: string) => {id: string, event: string, data: string}[]}
 */
export function makeParser() {
  let rest = "";
  return (text) => {
    rest = (rest + text).replace(/\r\n/g, "\n");
    const messages = rest.split("\n\n");
    rest = messages.pop() ?? "";
    return messages.map(parseMessage).filter((one) => one.data !== "");
  };
}

/** @param {string} text */
function parseMessage(text) {
  const message = { id: "", event: "message", data: "" };
  /** @type {string[]} */
  const data = [];
  for (const line of text.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (field === "data") data.push(value);
    else if (field === "id") message.id = value;
    else if (field === "event") message.event = value;
  }
  message.data = data.join("\n");
  return message;
}

/** Return the pause before a further attempt, in milliseconds. @param {number} attempt */
export const backOff = (attempt) => Math.min(LONGEST_DELAY, FIRST_DELAY * 2 ** attempt);

/**
 * Follow the events of a session until it is closed or `stop` is called.
 *
 * @param {string} sessionId
 * @param {{
 *   after: () => number,
 *   onEnvelopes: (envelopes: any[]) => void,
 *   onState: (state: "connecting" | "live" | "offline", error?: ApiError) => void,
 *   onExpired: () => Promise<void>,
 *   onEnd: () => void,
 * }} handlers `after` is the newest event that the page has; `onExpired` takes a new snapshot;
 *   `onEnd` is told that the session was closed: the next request would open it again.
 * @returns {{stop: () => void}}
 */
export function followEvents(sessionId, { after, onEnvelopes, onState, onExpired, onEnd }) {
  const stopped = new AbortController();
  /** @type {() => void} */
  let wake = () => {};
  const onWake = () => {
    if (document.visibilityState === "visible") wake();
  };
  window.addEventListener("online", onWake);
  document.addEventListener("visibilitychange", onWake);

  /** @param {number} delay */
  const pause = (delay) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, delay);
      wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });

  const run = async () => {
    let attempt = 0;
    while (!stopped.signal.aborted) {
      try {
        onState("connecting");
        const hasEnded = await readStream(sessionId, after(), stopped.signal, {
          onOpen: () => {
            attempt = 0;
            onState("live");
          },
          onEnvelopes,
        });
        if (hasEnded) {
          stop();
          onEnd();
          return;
        }
      } catch (error) {
        if (stopped.signal.aborted) return;
        const failure = error instanceof ApiError ? error : new ApiError("the connection was lost");
        if (failure.status === 410) {
          await onExpired().catch(() => {});
        } else {
          onState("offline", failure);
          if (failure.status === 401 || failure.status === 403 || failure.status === 404) return;
        }
      }
      if (stopped.signal.aborted) return;
      await pause(backOff(attempt));
      attempt += 1;
    }
  };
  const stop = () => {
    stopped.abort();
    wake();
    window.removeEventListener("online", onWake);
    document.removeEventListener("visibilitychange", onWake);
  };
  run();
  return { stop };
}

/**
 * Read one connection to its end. Returns whether the session was closed.
 * @param {string} sessionId @param {number} after @param {AbortSignal} stopped
 * @param {{onOpen: () => void, onEnvelopes: (envelopes: any[]) => void}} handlers
 */
async function readStream(sessionId, after, stopped, { onOpen, onEnvelopes }) {
  const silence = new AbortController();
  let timer = setTimeout(() => silence.abort(), SILENCE);
  const signal = AbortSignal.any([stopped, silence.signal]);
  try {
    const path = `/sessions/${encodeURIComponent(sessionId)}/events?after=${after}&answering=true`;
    const response = await request(path, { accept: "text/event-stream", signal });
    if (!response.ok || !response.body) throw await readError(response);
    onOpen();
    const parse = makeParser();
    const decoder = new TextDecoder();
    const reader = response.body.getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return false;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE);
      const messages = parse(decoder.decode(value, { stream: true }));
      deliver(messages, onEnvelopes);
      if (messages.some((one) => one.event === "stream_end")) return true;
    }
  } finally {
    clearTimeout(timer);
  }
}

/** @param {{event: string, data: string}[]} messages @param {(envelopes: any[]) => void} onEnvelopes */
function deliver(messages, onEnvelopes) {
  const envelopes = [];
  for (const message of messages) {
    const value = JSON.parse(message.data);
    if (value.seq !== undefined) {
      envelopes.push(value);
    } else if (value.type && value.message) {
      // The last message of a stream that the server ends: why it does.
      if (envelopes.length) onEnvelopes(envelopes);
      const status = value.type === "EventsExpired" ? 410 : 0;
      throw new ApiError(value.message, { status, type: value.type });
    }
  }
  if (envelopes.length) onEnvelopes(envelopes);
}
