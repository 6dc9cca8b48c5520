/** Starts the page. */

import { h, render } from "./vendor/htm-preact.js";
import { applyTheme } from "./theme.js";
import { App } from "./views/app.js";

applyTheme();
render(h(App, {}), /** @type {HTMLElement} */ (document.getElementById("app")));
