/** The keyboard shortcuts. */

import { html, useEffect, useRef } from "../vendor/htm-preact.js";
import { SHORTCUTS } from "../keys.js";
import { Icon } from "./icons.js";

/** A window above the page; Esc closes it, and the focus returns to where it was. */
export function Dialog({ title, onClose, children, wide = false }) {
  const ref = useRef(/** @type {any} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`
    <dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onClose=${onClose} onClick=${(/** @type {any} */ event) => event.target === ref.current && ref.current.close()}>
      <div class="dialog-body">
        <header><h2 id="dialog-title">${title}</h2><button type="button" class="ghost icon-button" aria-label="Close" onClick=${() => ref.current.close()}><${Icon} name="close" /></button></header>
        ${children}
      </div>
    </dialog>
  `;
}

/** @param {{onClose: () => void}} props */
export function Help({ onClose }) {
  const groups = [...new Set(SHORTCUTS.map((one) => one.group))];
  return html`
    <${Dialog} title="Keyboard" onClose=${onClose}>
      <div class="help">
        ${groups.map((group) => html`
          <section>
            <h3>${group}</h3>
            <dl>${SHORTCUTS.filter((one) => one.group === group).map((one) => html`<dt><kbd>${one.keys}</kbd></dt><dd>${one.does}</dd>`)}</dl>
          </section>
        `)}
      </div>
    <//>
  `;
}
