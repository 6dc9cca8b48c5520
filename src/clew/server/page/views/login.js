/** What the page shows if the server does not know who asks. */

import { html } from "../vendor/htm-preact.js";
import { Logo } from "./icons.js";

/** @param {{message: string}} props */
export const Login = ({ message }) => html`
  <main class="home" id="main">
    <${Logo} />
    <h1>Clew</h1>
    <p>Open the link that <code>clew serve</code> printed, or sign in with a token.</p>
    <a class="button primary" href="/login">Sign in</a>
    <p class="hint" role="alert">${message}</p>
  </main>
`;
