// The frame of the dashboard: the head of a view, and the view once its module is there.
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { VIEWS } from "../views.js";
import { Banner } from "./banner.js";
import { Footer } from "./footer.js";
import { DrawerButton, Theme } from "./header.js";

const SHEET = "/page/board.css";

export function Board({ page, narrow, covered }) {
  const { label } = VIEWS[page.view];
  const heading = useRef(null);
  const { name, View, problem } = useView(page.view);
  const shown = name === page.view;
  // Whoever cannot see it hears where they are, and reads on from there.
  useEffect(() => heading.current.focus(), [page.view]);
  return html`<main class="chat board" id="board" inert=${covered}>
    <header class="head">
      ${narrow && html`<${DrawerButton} page=${page} label="Open the list of views" />`}
      <h1 ref=${heading} tabindex="-1">${label}</h1>
      <${Theme} page=${page} />
    </header>
    <${Banner} page=${page} />
    <div class="scroller" tabindex="0" role="region" aria-label=${label}>
      ${shown && problem && html`<div class="missing" role="alert">
        <p>${problem}</p>
        <button type="button" class="primary" onClick=${() => location.reload()}>Load the page again</button>
      </div>`}
      ${shown && View && html`<div class="views"><${View} key=${name} page=${page} /></div>`}
      ${!shown && html`<p class="quiet-text">Loading…</p>`}
    </div>
    <${Footer} page=${page} />
  </main>`;
}

/** The view of this name, as soon as its module and the look of the dashboard are there. */
function useView(wanted) {
  const [loaded, setLoaded] = useState({ name: null });
  useEffect(() => {
    let current = true;
    Promise.all([VIEWS[wanted].load(), sheet()]).then(
      ([{ View }]) => current && setLoaded({ name: wanted, View }),
      () => current && setLoaded({ name: wanted, problem: "This view could not be loaded: the gateway is away." }),
    );
    return () => {
      current = false;
    };
  }, [wanted]);
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
      reject(new Error("the look of the dashboard is not there"));
    };
    document.head.append(link);
  });
}
