/** The page: the list of sessions, the open session, what is shown of it. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";
import { api, ApiError } from "../api.js";
import { listenToKeys } from "../keys.js";
import { TABS, navigate, route } from "../router.js";
import { openSession } from "../session.js";
import { createStore, useStore } from "../store.js";
import { nextTheme } from "../theme.js";
import { Help } from "./help.js";
import { Home } from "./home.js";
import { Login } from "./login.js";
import { SessionView } from "./session_view.js";
import { Sidebar } from "./sidebar.js";

/** @typedef {import("../session.js").OpenSession} OpenSession */

/** Whether the server refuses this page, and its list of sessions. */
const access = createStore(/** @type {ApiError | null} */ (null));

export function App() {
  const { session: id, tab } = useStore(route, (value) => value);
  const refusal = useStore(access, (value) => value);
  const [isHelpOpen, setHelpOpen] = useState(false);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [failure, setFailure] = useState("");
  const session = useOpenSession(id);

  const create = async () => {
    setMenuOpen(false);
    try {
      const made = await api.createSession({});
      navigate({ session: made.session_id });
      setFailure("");
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      setFailure(error.message);
    }
  };
  useEffect(
    () => listenToKeys({
      "?": () => setHelpOpen(true),
      "/": () => { setMenuOpen(true); setTimeout(() => document.getElementById("session-search")?.focus()); },
      o: create,
      d: () => nextTheme(),
      i: () => document.getElementById("prompt")?.focus(),
      t: () => document.getElementById("timeline")?.focus(),
      ...Object.fromEntries(TABS.map((name, at) => [String(at + 1), () => route.get().session && navigate({ tab: name })])),
    }),
    [],
  );
  if (refusal) return html`<${Login} message=${refusal.message} />`;
  return html`
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the session</a>
    <div class=${`app ${isMenuOpen ? "menu-open" : ""}`}>
      <${Sidebar} current=${id} isOpen=${isMenuOpen} onClose=${() => setMenuOpen(false)} onNew=${create} onHelp=${() => setHelpOpen(true)} onRefused=${(/** @type {ApiError} */ error) => access.set(error)} />
      ${isMenuOpen && html`<div class="scrim" onClick=${() => setMenuOpen(false)}></div>`}
      <main id="main" tabindex="-1">
        ${failure && html`<p class="banner error" role="alert">${failure} <button type="button" class="link" onClick=${() => setFailure("")}>Close</button></p>`}
        ${session
          ? html`<${SessionView} key=${id} session=${session} tab=${tab} onMenu=${() => setMenuOpen(true)} onNew=${create} />`
          : html`<${Home} onNew=${create} onMenu=${() => setMenuOpen(true)} />`}
      </main>
    </div>
    ${isHelpOpen && html`<${Help} onClose=${() => setHelpOpen(false)} />`}
  `;
}

/** Open the session with this id, and close the one before. @param {string} id @returns {OpenSession | null} */
function useOpenSession(id) {
  const open = useRef(/** @type {OpenSession | null} */ (null));
  const session = useMemo(() => {
    open.current?.close();
    open.current = id ? openSession(id) : null;
    return open.current;
  }, [id]);
  useEffect(() => () => open.current?.close(), []);
  return session;
}
