// The live log, filtered by level, session and text; a selected line shows its details.
import { useObservable } from "../observable.js";
import { _, _n } from "../translation.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { setQuery, queryParams } from "./url_query.js";
import { Choice, TextFilter } from "./filters.js";
import { LogBook } from "./log_feed.js";
import { Line } from "./log_line.js";
import { LogLines } from "./log_lines.js";

const LEVELS = { debug: _("Everything"), info: _("Information"), warning: _("Warnings"), error: _("Errors") };

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
      <${Choice} label=${_("Level")} value=${level} choices=${LEVELS} onChoose=${(value) => narrow({ level: value })} />
      <${TextFilter} label=${_("Session")} value=${session} placeholder=${_("its id, or the beginning of it")} onText=${(value) => narrow({ session: value }, typed)} />
      <${TextFilter} label=${_("Text")} value=${q} placeholder=${_("anywhere in a line")} onText=${(value) => narrow({ q: value }, typed)} />
      <button type="button" class="quiet outlined" aria-pressed=${String(feed.paused)} onClick=${() => (feed.paused ? feed.goOn() : feed.pause())}>
        <${Icon} name=${feed.paused ? "right" : "pause"} /> ${feed.paused ? _("Continue") : _("Pause")}
      </button>
    </div>
    ${feed.problem && html`<p class="problem" role="alert">${feed.problem}</p>`}
    <${LogLines} feed=${feed} chosen=${chosen?.number ?? null} onChoose=${setChosen} />
    ${chosen && html`<${Line} line=${chosen} onClose=${() => setChosen(null)} />`}
    <p class="log-state" role="status">${stateText(feed)}</p>
  </div>`;
}

function stateText(feed) {
  if (!feed.loaded) return feed.problem ? "" : _("Loading…");
  const { length } = feed.lines;
  if (feed.paused) return _n("{n} line. Paused: lines that are written meanwhile appear when you continue.", "{n} lines. Paused: lines that are written meanwhile appear when you continue.", length);
  if (!feed.connected) return _n("{n} line. The gateway cannot be reached; the log continues where it was.", "{n} lines. The gateway cannot be reached; the log continues where it was.", length);
  const held = _n("{n} line, live.", "{n} lines, live.", length);
  return feed.more && !feed.fuller ? `${held} ${_("The log file has older ones: run holdfast logs.")}` : held;
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
