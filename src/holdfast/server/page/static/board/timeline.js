// The timeline of one turn: its usage, its interruptions, and its waterfall; live while it runs.
import { useObservable } from "../observable.js";
import { _, _n } from "../translation.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact-htm.module.js";
import { TurnTimeline } from "./turn_timeline.js";
import { count, lasting, money, short } from "./number_format.js";
import { linesOf, story } from "./timeline_lines.js";
import { Moment } from "./moment.js";
import { SessionLink, titleOf } from "./session_link.js";
import { AsTable, settled } from "./span_text.js";
import { turnAddress } from "./turn_link.js";
import { StateBadge } from "./turn_state.js";
import { Waterfall } from "./waterfall.js";

const LONG = 200; // rows; a longer list is drawn less often while it grows

export function Timeline({ page, id }) {
  const timeline = useMemo(() => new TurnTimeline(id), [id]);
  useEffect(() => {
    timeline.open();
    return () => timeline.close();
  }, [timeline]);
  useObservable(timeline);
  const { loaded, problem } = timeline;
  const lines = useMemo(() => (loaded ? linesOf(loaded) : []), [timeline.last]);
  const now = useNow(timeline.running, lines.length > LONG ? 5 : 1, lines);
  if (!loaded) return html`<${Missing} problem=${problem} />`;
  const { turn } = loaded;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem.message} ${_("The data shown may be out of date.")}</p>`}
    <${Head} page=${page} loaded=${loaded} now=${now} />
    <${Story} lines=${lines} turn=${turn} />
    <section class="card" aria-labelledby="course">
      <h2 id="course">${_("What it did")}</h2>
      ${lines.length
        ? html`<${Waterfall} turn=${turn} lines=${lines} now=${now} session=${turn.session_id} />`
        : html`<p class="quiet-text">${_("It has no steps yet.")}</p>`}
      ${timeline.more && html`<p><button type="button" class="quiet outlined" onClick=${() => timeline.showMore()}>${_n("Show more of its {n} step", "Show more of its {n} steps", turn.steps)}</button></p>`}
      <${Table} lines=${lines} begin=${turn.started_at} now=${now} />
    </section>`;
}

function Missing({ problem }) {
  if (!problem) return html`<p class="quiet-text">${_("Loading…")}</p>`;
  return html`<section class="card" role="alert">
    <h2>${problem.status === 404 ? _("This turn does not exist") : _("The turn could not be loaded")}</h2>
    <p>${problem.status === 404 ? _("It may have been deleted with its conversation.") : problem.message}</p>
    <p><a href="#/turns">${_("All turns")}</a></p>
  </section>`;
}

/** The current time while anything runs, else the end of the last span. The clock of the browser may differ from the gateway's. */
function useNow(running, every, lines) {
  const [, tick] = useState(0);
  useEffect(() => {
    if (!running) return undefined;
    const timer = setInterval(() => document.hidden || tick((before) => before + 1), every * 1000);
    return () => clearInterval(timer);
  }, [running, every]);
  const last = Math.max(0, ...lines.map(({ from, to }) => to ?? from));
  return running || lines.some(({ to }) => to === null) ? Math.max(Date.now() / 1000, last) : last;
}

function Head({ page, loaded, now }) {
  const { turn, previous, next } = loaded;
  const heading = useRef(null);
  useEffect(() => heading.current.focus(), [turn.id]);
  const { input_tokens = 0, output_tokens = 0 } = turn.usage;
  const facts = [
    [_("Took"), turn.ended_at === null ? _("{time} so far", { time: lasting(now - turn.started_at) }) : lasting(turn.ended_at - turn.started_at)],
    [_("Steps"), count(turn.steps)],
    [_("Tokens"), _("{read} read, {written} written", { read: short(input_tokens), written: short(output_tokens) })],
    [_("Cost"), turn.cost === null ? _("no price is set") : money(turn.cost)],
  ];
  return html`<section class="card" aria-labelledby="turn">
    <header class="between">
      <h2 id="turn" ref=${heading} tabindex="-1">${_("Turn of {time}", { time: html`<${Moment} at=${turn.started_at} />` })} <${StateBadge} turn=${turn} /></h2>
      <nav class="turn-nav" aria-label=${_("Previous and next turn")}>
        <${Beside} id=${previous} label=${_("Previous turn")} />
        <${Beside} id=${next} label=${_("Next turn")} />
      </nav>
    </header>
    <p class="facts"><span>${_("in {session}", { session: html`<${SessionLink} id=${turn.session_id} title=${titleOf(page, turn.session_id)} />` })}</span><a href="#/turns">${_("All turns")}</a></p>
    ${turn.reason && html`<p class=${turn.state === "failed" ? "problem" : "quiet-text"}>${turn.reason}</p>`}
    <dl class="stat-grid">${facts.map(([name, figure]) => html`<div key=${name}><dt>${name}</dt><dd>${figure}</dd></div>`)}</dl>
  </section>`;
}

function Beside({ id, label }) {
  return id && html`<a class="quiet outlined" href=${turnAddress(id)}>${label}</a>`;
}

/** The interruptions of the turn; nothing if there are none. */
function Story({ lines, turn }) {
  const { downtimes, ...calls } = story(lines);
  const outcomes = settled(calls);
  if (!downtimes.length && !turn.exit_reason) return null;
  return html`<section class="card" aria-labelledby="downtimes">
    <h2 id="downtimes">${_("While the gateway was down")}</h2>
    <ul class="interruptions">
      ${downtimes.map(({ name, description: how, from, to }) => html`<li key=${from}>
        <${Moment} at=${from} /> ${how ? `${name}: ${how}.` : `${name}.`} ${to === null ? _("The turn has not continued yet.") : _("It was down for {time}.", { time: lasting(to - from) })}
      </li>`)}
      ${outcomes.map((outcome) => html`<li key=${outcome}>${outcome}</li>`)}
    </ul>
  </section>`;
}

function Table({ lines, begin, now }) {
  const [open, setOpen] = useState(false);
  return html`<details class="as-table" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${_("As a table")}</summary>
    ${open && html`<${AsTable} lines=${lines} begin=${begin} now=${now} />`}
  </details>`;
}
