// The icons, in the colour of the text beside them.
import { html } from "../vendor/preact-htm.module.js";

const PATHS = {
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  clip: "M20 11.5 12.2 19a5 5 0 0 1-7-7L13 4.4a3.3 3.3 0 0 1 4.7 4.7l-7.8 7.6a1.7 1.7 0 0 1-2.4-2.4l7.1-7",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6 6 18",
  more: "M4.2 12a.8.8 0 1 0 1.6 0a.8.8 0 1 0-1.6 0M11.2 12a.8.8 0 1 0 1.6 0a.8.8 0 1 0-1.6 0M18.2 12a.8.8 0 1 0 1.6 0a.8.8 0 1 0-1.6 0",
  up: "M6 15l6-6 6 6",
  down: "M6 9l6 6 6-6",
  right: "M9 6l6 6-6 6",
  left: "M15 6l-6 6 6 6",
  copy: "M9 9h10v11H9zM15 9V4H5v11h4",
  check: "M5 12.5 10 17 19 7",
  cross: "M7 7l10 10M17 7 7 17",
  ban: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM5.6 5.6l12.8 12.8",
  question: "M9 9.5a3 3 0 1 1 4.2 2.7c-.8.4-1.2 1-1.2 1.8M12 17h.01",
  dash: "M7 12h10",
  files: "M4 6h6l2 2h8v11H4z",
  pulse: "M3 12h4l3-7 4 14 3-7h4",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v2M12 20v2M4 12H2M22 12h-2M5 5l1.5 1.5M17.5 17.5 19 19M5 19l1.5-1.5M17.5 6.5 19 5",
  moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.5 10.5z",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18",
  shield: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6zM12 8v5M12 16h.01",
  bulb: "M9 18h6M10 21h4M12 3a6 6 0 0 1 3.5 10.9c-.6.5-1 1.2-1 2.1h-5c0-.9-.4-1.6-1-2.1A6 6 0 0 1 12 3z",
  book: "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zM5 17a3 3 0 0 1 3-3h11M9 8h6",
  people: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM3 20c0-4 2.5-6 6-6s6 2 6 6M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14.5c2 .8 3 2.7 3 5.5",
  pencil: "M4 20l1-4L16 5l3 3L8 19z",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  terminal: "M5 8l4 4-4 4M12 16h7",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  globe: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  list: "M9 6h11M9 12h11M9 18h11M4 6h.01M4 12h.01M4 18h.01",
  gauge: "M4 18a9 9 0 1 1 16 0zM12 14l4-5",
  bubble: "M4 5h16v11H10l-4 4v-4H4z",
  bubbles: "M3 4h12v9H8l-3 3v-3H3zM18 8h3v9h-2v3l-3-3h-5v-1",
  plug: "M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4",
  pause: "M8 6v12M16 6v12",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3.5 2",
  outbox: "M4 13v6h16v-6M4 13h5l1 2h4l1-2h5M12 11V3M8.5 6.5 12 3l3.5 3.5",
  bars: "M4 6h8M8 12h9M13 18h7",
  again: "M19 12a7 7 0 1 1-2.3-5.2M19 3v4.5h-4.5",
  sliders: "M4 7h9M17 7h3M15 4.8v4.4M4 17h3M11 17h9M9 14.8v4.4",
  tool: "M14 6a4 4 0 0 0-5 5l-6 6 3 3 6-6a4 4 0 0 0 5-5l-2.5 2.5L12 9z",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name]} />
  </svg>`;
}

export function Spinner() {
  return html`<span class="spinner" aria-hidden="true"></span>`;
}

/** The logo: kelp on a rock. */
export function Logo() {
  return html`<svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <path class="rock" d="M4 27c3-5 7-6 12-6s9 1 12 6z" />
    <path class="kelp" d="M16 25V14M16 17c-5 0-8-3-8-9 5 0 8 3 8 9zM16 14c0-6 3-9 8-9 0 6-3 9-8 9z" />
    <path class="kelp" d="M16 21c-1 2-3 3-5 4M16 21c1 2 3 3 5 4" />
  </svg>`;
}
