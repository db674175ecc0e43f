// Starts the page.
import { Page } from "./page.js";
import { html, render } from "./vendor/preact-htm.module.js";
import { App } from "./view/app.js";

const page = new Page();
render(html`<${App} page=${page} />`, document.getElementById("page"));
page.start();
