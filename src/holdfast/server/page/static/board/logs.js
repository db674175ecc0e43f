// The log as it is written, narrowed by level, session and words; a line that is chosen says all it knows.
import { useObservable } from "../observable.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { ask, asked } from "./url_query.js";
import { many } from "./number_format.js";
import { Choice, Words } from "./filters.js";
import { LogBook } from "./log_feed.js";
import { Line } from "./log_line.js";
import { LogLines } from "./log_lines.js";

const LEVELS = { debug: "Everything", info: "Information", warning: "Warnings", error: "Errors" };

export function View({ page }) {
  const { level = "info", session = "", q = "" } = asked();
  const [book] = useState(() => new LogBook());
  const [chosen, setChosen] = useState(null);
  useObservable(book);
  useEffect(() => {
    setChosen(null);
    book.ask({ level, session, q });
  }, [book, level, session, q]);
  useEffect(() => watched(book, page.changes), [book]);
  const narrow = (change, how) => ask(page, "logs", { level, session, q, ...change }, how);
  const typed = { typed: true };
  return html`<div class="log">
    <div class="filters">
      <${Choice} label="Level" value=${level} choices=${LEVELS} onChoose=${(value) => narrow({ level: value })} />
      <${Words} label="Session" value=${session} placeholder="its id, or how that begins" onWords=${(value) => narrow({ session: value }, typed)} />
      <${Words} label="Words" value=${q} placeholder="anywhere in a line" onWords=${(value) => narrow({ q: value }, typed)} />
      <button type="button" class="quiet outlined" aria-pressed=${String(book.paused)} onClick=${() => (book.paused ? book.goOn() : book.pause())}>
        <${Icon} name=${book.paused ? "right" : "pause"} /> ${book.paused ? "Continue" : "Pause"}
      </button>
    </div>
    ${book.problem && html`<p class="problem" role="alert">${book.problem}</p>`}
    <${LogLines} book=${book} chosen=${chosen?.number ?? null} onChoose=${setChosen} />
    ${chosen && html`<${Line} line=${chosen} onClose=${() => setChosen(null)} />`}
    <p class="log-state" role="status">${told(book)}</p>
  </div>`;
}

function told(book) {
  if (!book.loaded) return book.problem ? "" : "Loading…";
  const held = many(book.lines.length, "line");
  if (book.paused) return `${held}. Paused: what is written meanwhile comes when you continue.`;
  if (!book.connected) return `${held}. The gateway is away; the log goes on where it was.`;
  return `${held}, live.${book.more && !book.fuller ? " Older ones are in the log's file: holdfast logs." : ""}`;
}

/** While the page is hidden nothing is listened to, and what was written then comes afterwards. */
function watched(book, changes) {
  const look = () => (document.hidden ? book.rest() : book.wake());
  document.addEventListener("visibilitychange", look);
  const ends = changes.subscribe(look);
  return () => {
    document.removeEventListener("visibilitychange", look);
    ends();
    book.close();
  };
}
