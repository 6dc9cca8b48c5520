/** Code with colours and a button that copies it. */

import { html, useState } from "../vendor/htm-preact.js";
import { highlight } from "../highlight.js";
import { Icon } from "./icons.js";

/** Copy a text; returns whether the browser allowed it. @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** @param {{text: string, label?: string}} props */
export function CopyButton({ text, label = "Copy" }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    if (!(await copyText(text))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), 1500);
  };
  return html`
    <button type="button" class="ghost small copy" onClick=${copy} aria-label=${isCopied ? "Copied" : label} title=${label}>
      <${Icon} name=${isCopied ? "check" : "copy"} />
    </button>
  `;
}

/** @param {{text: string, language?: string}} props */
export function Code({ text, language = "" }) {
  return html`
    <div class="code">
      <div class="code-head"><span>${language}</span><${CopyButton} text=${text} label="Copy code" /></div>
      <pre tabindex="0"><code>${highlight(text, language).map((one) => (one.kind ? html`<span class=${`hl-${one.kind}`}>${one.text}</span>` : one.text))}</code></pre>
    </div>
  `;
}
