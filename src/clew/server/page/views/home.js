/** What the page shows before a session is open. */

import { html } from "../vendor/htm-preact.js";
import { Icon, Logo } from "./icons.js";

/** @param {{onNew: () => void, onMenu: () => void}} props */
export const Home = ({ onNew, onMenu }) => html`
  <header class="topbar"><button type="button" class="ghost icon-button menu" onClick=${onMenu} aria-label="Sessions"><${Icon} name="menu" /></button></header>
  <div class="home">
    <${Logo} />
    <h1>Clew</h1>
    <p>Choose a session, or begin a new one. The context window of each is drawn call by call: what fills it, what a compaction took out, and the way back.</p>
    <button type="button" class="primary" onClick=${onNew}><${Icon} name="plus" />New session <kbd>o</kbd></button>
  </div>
`;
