/** Where prompts are written: text, `/commands`, `@paths`, `!` shell commands, pasted images. */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/htm-preact.js";
import { api } from "../api.js";
import { completionAt, insertCompletion, rankCommands } from "../completion.js";
import { useStore } from "../store.js";
import { Icon } from "./icons.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

const DRAFT_KEY = "clew.draft.";

/** @param {File} file @returns {Promise<{media_type: string, data: string, preview: string}>} */
async function readImage(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  const data = btoa(binary);
  return { media_type: file.type, data, preview: `data:${file.type};base64,${data}` };
}

/** @param {{session: OpenSession, actions: any, onSend: () => void}} props */
export function Composer({ session, actions, onSend }) {
  const isRunning = useStore(session.store, (state) => state.transcript.since !== null);
  const queue = useStore(session.store, (state) => state.transcript.queue);
  const isLoaded = useStore(session.store, (state) => state.isLoaded);
  const [text, setText] = useState(sessionStorage.getItem(DRAFT_KEY + session.id) ?? "");
  const [images, setImages] = useState(/** @type {any[]} */ ([]));
  const field = useRef(/** @type {any} */ (null));
  const menu = useCompletion(session, text, setText, field);

  useLayoutEffect(() => {
    const isNew = isLoaded && !session.store.get().transcript.blocks.length;
    if (isNew && document.activeElement === document.body) field.current.focus();
  }, [isLoaded]);
  useEffect(() => {
    field.current.style.height = "auto";
    field.current.style.height = `${Math.min(field.current.scrollHeight, 240)}px`;
    sessionStorage.setItem(DRAFT_KEY + session.id, text);
  }, [text]);

  const send = async () => {
    const line = text.trim();
    if (!line && !images.length) return;
    const attached = images.map(({ media_type, data }) => ({ type: "image", media_type, data }));
    setText("");
    setImages([]);
    onSend();
    const outcome = attached.length
      ? await session.attempt(() => api.submit(session.id, { text: line, images: attached }).then(() => ({ kind: "prompt" })))
      : await session.attempt(() => api.execute(session.id, line));
    if (outcome === null) setText((now) => now || line);
    else actions.applyOutcome(outcome);
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (menu.onKeyDown(event)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      send();
    }
  };
  /** @param {any} event */
  const take = async (event) => {
    const files = [...((event.clipboardData ?? event.dataTransfer ?? event.target)?.files ?? [])].filter((one) => one.type.startsWith("image/"));
    if (!files.length) return;
    event.preventDefault();
    const read = await Promise.all(files.map(readImage));
    setImages((now) => [...now, ...read]);
  };
  return html`
    <form class="composer" onSubmit=${(/** @type {Event} */ event) => { event.preventDefault(); send(); }} onDrop=${take} onDragOver=${(/** @type {Event} */ event) => event.preventDefault()}>
      ${queue && html`
        <p class="queued" role="status"><span class="tag">next</span> <span class="queued-text">${queue}</span>
          <button type="button" class="ghost small" aria-label="Cancel the waiting prompt" onClick=${() => session.attempt(() => api.cancelQueue(session.id))}><${Icon} name="close" /></button>
        </p>
      `}
      ${images.length > 0 && html`
        <div class="images">
          ${images.map((one, at) => html`
            <span class="attached"><img src=${one.preview} alt=${`Attached image ${at + 1}`} />
              <button type="button" class="ghost small" aria-label=${`Remove image ${at + 1}`} onClick=${() => setImages(images.filter((other) => other !== one))}><${Icon} name="close" /></button>
            </span>
          `)}
        </div>
      `}
      <${Menu} menu=${menu} />
      <div class="composer-row">
        <textarea id="prompt" ref=${field} rows="1" value=${text} disabled=${!isLoaded} placeholder=${isRunning ? "Write the next prompt; it waits for its turn" : "Ask, or type / for commands"}
          aria-label="Prompt" aria-autocomplete="list" aria-activedescendant=${menu.items.length ? `completion-${menu.at}` : undefined}
          onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${onKeyDown} onPaste=${take}></textarea>
        <label class="ghost icon-button" title="Attach an image"><${Icon} name="image" /><span class="sr-only">Attach an image</span><input type="file" accept="image/*" multiple class="sr-only" onChange=${take} /></label>
        ${isRunning && html`<button type="button" class="stop icon-button" onClick=${() => session.attempt(() => api.abort(session.id))} aria-label="Abort the run" title="Abort the run (Esc)"><${Icon} name="stop" /></button>`}
        <button type="submit" class="primary icon-button" disabled=${!text.trim() && !images.length} aria-label=${isRunning ? "Queue the prompt" : "Send"} title=${isRunning ? "Queue (Enter)" : "Send (Enter)"}><${Icon} name="send" /></button>
      </div>
    </form>
  `;
}

/** Complete commands and paths while they are typed. */
function useCompletion(/** @type {OpenSession} */ session, /** @type {string} */ text, /** @type {(text: string) => void} */ setText, /** @type {any} */ field) {
  const [items, setItems] = useState(/** @type {any[]} */ ([]));
  const [at, setAt] = useState(0);
  const commands = useRef(/** @type {any[] | null} */ (null));
  const place = useRef(/** @type {any} */ (null));
  useEffect(() => {
    let isOver = false;
    const found = completionAt(text, field.current?.selectionStart ?? text.length);
    place.current = found;
    setAt(0);
    const find = async () => {
      if (!found) return [];
      if (found.kind === "path") {
        return (await api.paths(session.id, found.fragment)).map((/** @type {any} */ one) => ({ value: one.text, detail: one.detail ?? "", isFolder: one.is_folder }));
      }
      commands.current ??= await api.commands(session.id);
      return rankCommands(commands.current ?? [], found.fragment);
    };
    find().then((next) => !isOver && setItems(next)).catch(() => !isOver && setItems([]));
    return () => { isOver = true; };
  }, [text]);
  /** @param {number} which */
  const choose = (which) => {
    setText(insertCompletion(text, place.current, items[which]));
    setItems([]);
    field.current.focus();
  };
  /** @param {KeyboardEvent} event */
  const onKeyDown = (event) => {
    if (!items.length || event.isComposing) return false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      setAt((at + (event.key === "ArrowDown" ? 1 : items.length - 1)) % items.length);
    } else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !isComplete(text, items[at]))) {
      choose(at);
    } else if (event.key === "Escape") {
      setItems([]);
      event.stopPropagation();
    } else {
      return false;
    }
    event.preventDefault();
    return true;
  };
  return { items, at, choose, onKeyDown };
}

/** @param {string} text @param {any} item */
const isComplete = (text, item) => text.trim() === `/${item.value}` || text.trimEnd().endsWith(`@${item.value}`);

/** @param {{menu: ReturnType<typeof useCompletion>}} props */
function Menu({ menu }) {
  if (!menu.items.length) return null;
  return html`
    <ul class="completions" id="completions" role="listbox" aria-label="Completions">
      ${menu.items.map((one, at) => html`
        <li id=${`completion-${at}`} role="option" aria-selected=${at === menu.at} onMouseDown=${(/** @type {Event} */ event) => { event.preventDefault(); menu.choose(at); }}>
          <b>${one.sign ?? ""}${one.value}</b><span class="hint">${one.detail}</span>
        </li>
      `)}
    </ul>
  `;
}
