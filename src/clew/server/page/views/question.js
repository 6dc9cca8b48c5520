/** Permission requests: answered by click or key. The first answer counts, whoever gives it. */

import { html, useEffect, useRef, useState } from "../vendor/htm-preact.js";
import { api } from "../api.js";
import { oneLine } from "../format.js";
import { listenToKeys } from "../keys.js";
import { Code } from "./code.js";
import { Markdown } from "./markdown.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

const HABIT = 400; // Milliseconds in which a key was still meant for the prompt.

/** @param {{session: OpenSession, requests: any[]}} props */
export function Questions({ session, requests }) {
  if (!requests.length) return null;
  const [request] = requests;
  return html`<${Question} key=${request.request_id} session=${session} request=${request} more=${requests.length - 1} />`;
}

/** Return the answers to a request, with their keys. @param {any} request */
export function choicesOf(request) {
  const isQuestion = request.is_question;
  const choices = [{ key: "y", approval: "once", label: isQuestion ? "Yes" : "Allow once", detail: "" }];
  if (request.session_scope) {
    choices.push({ key: "s", approval: "session", label: isQuestion ? "Yes, always" : "Allow for this session", detail: request.session_scope });
  }
  if (request.project_rules?.length) {
    choices.push({ key: "p", approval: "project", label: "Allow in this project", detail: request.project_rules.join(", ") });
  }
  return [...choices, { key: "n", approval: "no", label: isQuestion ? "No" : "Deny", detail: "" }];
}

/** @param {{session: OpenSession, request: any, more: number}} props */
function Question({ session, request, more }) {
  const [reply, setReply] = useState("");
  const [isSent, setSent] = useState(false);
  const replyRef = useRef("");
  replyRef.current = reply;
  const choices = choicesOf(request);
  /** @param {string} approval */
  const answer = async (approval) => {
    setSent(true);
    const body = { request_id: request.request_id, approval, reply: replyRef.current };
    const done = await session.attempt(() => api.answer(session.id, body).then(() => true));
    if (!done) setSent(false);
  };
  const card = useRef(/** @type {any} */ (null));
  const movedAt = useFocus(card);
  useEffect(() => {
    /** @param {string} approval */
    const take = (approval) => (/** @type {KeyboardEvent} */ event) => {
      if (event.timeStamp - movedAt.current > HABIT) answer(approval);
    };
    return listenToKeys(Object.fromEntries(choices.map((one) => [one.key, take(one.approval)])));
  }, [request]);
  return html`
    <section ref=${card} tabindex="-1" class=${`question ${request.risk}`} aria-labelledby="question-title" data-request=${request.request_id}>
      <div role="alert" class="question-head">
        <h2 id="question-title">${request.is_question ? request.reason : `Allow ${request.tool_name}?`}</h2>
        ${request.asker && html`<span class="tag">${request.asker}</span>`}
        <span class=${`tag risk ${request.risk}`}>${request.risk}</span>
        ${more > 0 && html`<span class="hint">${more} more</span>`}
      </div>
      <${About} request=${request} />
      ${!request.is_question && request.reason && html`<p class="hint">${request.reason}</p>`}
      <div class="question-choices">
        ${choices.map((one) => html`
          <button type="button" disabled=${isSent} class=${one.approval === "no" ? "danger" : one.approval === "once" ? "primary" : ""} title=${one.detail} aria-keyshortcuts=${one.key} onClick=${() => answer(one.approval)}>
            ${one.label}<kbd>${one.key}</kbd>
          </button>
        `)}
        <input type="text" value=${reply} placeholder=${request.is_question ? "Your reply" : "A message for the model (optional)"} aria-label="Message for the model" onInput=${(/** @type {any} */ event) => setReply(event.target.value)}
          onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === "Enter" && reply && answer(request.is_question ? "once" : "no")} />
      </div>
      ${choices.filter((one) => one.detail).map((one) => html`<p class="hint scope"><kbd>${one.key}</kbd> ${one.detail}</p>`)}
    </section>
  `;
}

/**
 * Take the focus from an empty prompt, so that the keys answer, and give it back at the end.
 * Returns when the focus moved: a key that was meant for the prompt is no answer.
 */
function useFocus(/** @type {any} */ card) {
  const movedAt = useRef(-Infinity);
  useEffect(() => {
    const field = /** @type {HTMLTextAreaElement | null} */ (document.getElementById("prompt"));
    const own = card.current;
    const isMoved = document.activeElement === field && field?.value === "";
    if (isMoved) {
      movedAt.current = performance.now();
      own.focus();
    }
    return () => {
      const now = document.activeElement;
      if (isMoved && (now === document.body || own.contains(now))) field?.focus();
    };
  }, []);
  return movedAt;
}

/** What the call would do. @param {{request: any}} props */
function About({ request }) {
  const values = request.arguments ?? {};
  if (typeof values.plan === "string") return html`<div class="plan" tabindex="0" role="group" aria-label="Plan"><${Markdown} text=${values.plan} /></div>`;
  if (typeof values.command === "string") return html`<${Code} text=${values.command} language="bash" />`;
  if (typeof values.old_string === "string" && typeof values.new_string === "string") {
    const text = [...mark("-", values.old_string), ...mark("+", values.new_string)].join("\n");
    return html`<p class="target">${request.target}</p><${Code} text=${text} language="diff" />`;
  }
  if (typeof values.content === "string") {
    return html`<p class="target">${request.target}</p><${Code} text=${values.content.slice(0, 4000)} />`;
  }
  return html`<p class="target">${request.target || oneLine(JSON.stringify(values), 300)}</p>`;
}

/** @param {string} sign @param {string} text */
const mark = (sign, text) => text.split("\n").map((line) => `${sign}${line}`);
