// The live log, filtered by level, session and text; a selected line shows its details.
import { useObservable } from "../observable.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { setQuery, queryParams } from "./url_query.js";
import { many } from "./number_format.js";
import { Choice, TextFilter } from "./filters.js";
import { LogBook } from "./log_feed.js";
import { Line } from "./log_line.js";
import { LogLines } from "./log_lines.js";

const LEVELS = { debug: "Everything", info: "Information", warning: "Warnings", error: "Errors" };

export function View({ page }) {
  const { level = "info", session = "", q = "" } = queryParams();
  const [feed] = useState(() => new LogBook());
  const [chosen, setChosen] = useState(null);
  useObservable(feed);
  useEffect(() => {
    setChosen(null);
    feed.ask({ level, session, q });
  }, [feed, level, session, q]);
  useEffect(() => watched(feed, page.changes), [feed]);
  const narrow = (change, how) => setQuery(page, "logs", { level, session, q, ...change }, how);
  const typed = { typed: true };
  return html`<div class="log">
    <div class="filters">
      <${Choice} label="Level" value=${level} choices=${LEVELS} onChoose=${(value) => narrow({ level: value })} />
      <${TextFilter} label="Session" value=${session} placeholder="its id, or how that begins" onText=${(value) => narrow({ session: value }, typed)} />
      <${TextFilter} label="Words" value=${q} placeholder="anywhere in a line" onText=${(value) => narrow({ q: value }, typed)} />
      <button type="button" class="quiet outlined" aria-pressed=${String(feed.paused)} onClick=${() => (feed.paused ? feed.goOn() : feed.pause())}>
        <${Icon} name=${feed.paused ? "right" : "pause"} /> ${feed.paused ? "Continue" : "Pause"}
      </button>
    </div>
    ${feed.problem && html`<p class="problem" role="alert">${feed.problem}</p>`}
    <${LogLines} feed=${feed} chosen=${chosen?.number ?? null} onChoose=${setChosen} />
    ${chosen && html`<${Line} line=${chosen} onClose=${() => setChosen(null)} />`}
    <p class="log-state" role="status">${stateText(feed)}</p>
  </div>`;
}

function stateText(feed) {
  if (!feed.loaded) return feed.problem ? "" : "Loading…";
  const held = many(feed.lines.length, "line");
  if (feed.paused) return `${held}. Paused: what is written meanwhile comes when you continue.`;
  if (!feed.connected) return `${held}. The gateway is away; the log goes on where it was.`;
  return `${held}, live.${feed.more && !feed.fuller ? " Older ones are in the log's file: holdfast logs." : ""}`;
}

/** While the page is hidden there is no stream; the missed lines are loaded afterwards. */
function watched(feed, changes) {
  const onVisibility = () => (document.hidden ? feed.rest() : feed.wake());
  document.addEventListener("visibilitychange", onVisibility);
  const ends = changes.subscribe(onVisibility);
  return () => {
    document.removeEventListener("visibilitychange", onVisibility);
    ends();
    feed.close();
  };
}
