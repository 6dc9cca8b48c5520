/** What is done with a session as a whole: a copy of it, and its end. */

import { html, useState } from "../vendor/htm-preact.js";
import { api, ApiError } from "../api.js";
import { navigate } from "../router.js";
import { listRevision } from "../session_list.js";
import { useStore } from "../store.js";
import { Dialog } from "./help.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

/** Copy a session and show the copy. @param {OpenSession} session */
export async function forkSession(session) {
  const copy = await session.attempt(() => api.fork(session.id, {}));
  if (copy) navigate({ session: copy.session_id });
}

/** @param {{session: OpenSession, onClose: () => void}} props */
export function DeleteDialog({ session, onClose }) {
  const isRunning = useStore(session.store, (state) => state.transcript.since !== null);
  const [isWorking, setWorking] = useState(false);
  const [failure, setFailure] = useState("");
  const run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setWorking(true);
    try {
      await api.deleteSession(session.id);
      navigate({ session: "" });
      listRevision.update((count) => count + 1);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFailure(error.message);
      setWorking(false);
    }
  };
  return html`
    <${Dialog} title="Delete this session?" onClose=${onClose}>
      <form onSubmit=${run}>
        <p>Its messages, its journal and its checkpoints are deleted. This cannot be undone.${isRunning && " Its run is aborted."}</p>
        ${failure && html`<p class="notice error" role="alert">${failure}</p>`}
        <div class="dialog-actions">
          <button type="button" onClick=${onClose}>Keep it</button>
          <button type="submit" class="danger" disabled=${isWorking}>${isWorking ? "Deleting…" : "Delete"}</button>
        </div>
      </form>
    <//>
  `;
}
