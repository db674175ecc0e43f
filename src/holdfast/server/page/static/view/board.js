// The frame of the dashboard: the head of a view, and the view once its module is loaded. A module may
// also export `Opened`, which fills the frame where the address names a part of the view.
import { _ } from "../translation.js";
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { VIEWS } from "../views.js";
import { Banner } from "./banner.js";
import { Footer } from "./footer.js";
import { DrawerButton, Theme } from "./header.js";

const SHEET = new URL("../board.css", import.meta.url).pathname;

export function Board({ page, narrow, covered }) {
  const { label } = VIEWS[page.view];
  const heading = useRef(null);
  const loaded = useView(page.view);
  const Opened = loaded.name === page.view && page.part !== null ? loaded.Opened : null;
  // Screen readers announce the heading and continue from there.
  useEffect(() => heading.current.focus(), [page.view, Opened && page.part]);
  return html`<main class="chat board" id="board" inert=${covered}>
    <header class="head">
      ${narrow && html`<${DrawerButton} page=${page} label=${_("Open the list of views")} />`}
      <h1 ref=${heading} tabindex="-1">${label}</h1>
      <${Theme} page=${page} />
    </header>
    <${Banner} page=${page} />
    ${Opened
      ? html`<${Opened} key=${page.part} page=${page} />`
      : html`<div class="scroller" tabindex="0" role="region" aria-label=${label}><${Shown} page=${page} loaded=${loaded} /></div>`}
    <${Footer} page=${page} />
  </main>`;
}

function Shown({ page, loaded: { name, View, problem } }) {
  if (name !== page.view) return html`<p class="quiet-text">${_("Loading…")}</p>`;
  if (View) return html`<div class="views"><${View} key=${name} page=${page} /></div>`;
  return html`<div class="missing" role="alert">
    <p>${problem}</p>
    <button type="button" class="primary" onClick=${() => location.reload()}>${_("Reload the page")}</button>
  </div>`;
}

/** The view of this name, as soon as its module and the style sheet are loaded. */
function useView(name) {
  const [loaded, setLoaded] = useState({ name: null });
  useEffect(() => {
    let current = true;
    Promise.all([VIEWS[name].load(), sheet()]).then(
      ([{ View, Opened }]) => current && setLoaded({ name: name, View, Opened }),
      () => current && setLoaded({ name: name, problem: _("Could not load this view: the gateway cannot be reached.") }),
    );
    return () => {
      current = false;
    };
  }, [name]);
  return loaded;
}

function sheet() {
  if (document.querySelector(`link[href="${SHEET}"]`)) return null;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = SHEET;
  return new Promise((resolve, reject) => {
    link.onload = resolve;
    link.onerror = () => {
      link.remove();
      reject(new Error("could not load the style sheet of the dashboard"));
    };
    document.head.append(link);
  });
}
