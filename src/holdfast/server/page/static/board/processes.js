// Processes: background processes of all sessions, and running calls of turns.
import { api } from "../api.js";
import { _, _n } from "../translation.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { Spinner } from "../view/icons.js";
import { Process, Unfolding, Written } from "../view/processes.js";
import { lasted, size } from "../view/times.js";
import { lasting } from "./number_format.js";
import { Moment } from "./moment.js";
import { SessionLink, titleOf } from "./session_link.js";
import { turnAddress } from "./turn_link.js";

const EVERY = 5; // seconds; no event announces the end of a process
const SHOWN = 50; // ended processes that are shown

export function View({ page }) {
  const ask = async () => {
    const [processes, calls] = await Promise.all([api.allProcesses(), api.calls()]);
    return { processes, calls };
  };
  const { value, problem, refresh } = useFetched(page.changes, ask, EVERY);
  useTicking();
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || _("Loading…")}</p>`;
  const { processes, calls } = value;
  const running = processes.filter(({ running: runs }) => runs);
  const ended = processes.filter(({ running: runs }) => !runs);
  const drawn = (process) => html`<${Process} key=${`${process.session_id} ${process.id}`} page=${page} process=${process} session=${process.session_id} source=${page.changes} refresh=${refresh}>
    <${Where} page=${page} session=${process.session_id} />
    <span>${_("since {time}", { time: html`<${Moment} at=${process.started_at} />` })}</span>
    ${process.memory !== null && html`<span>${size(process.memory)}</span><span>${_("{time} CPU", { time: lasting(process.cpu) })}</span>`}
  <//>`;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem} ${_("The data shown may be out of date.")}</p>`}
    <section class="card" aria-labelledby="calls">
      <h2 id="calls">${_("In the foreground")}</h2>
      ${calls.length
        ? html`<ul class="processes">${calls.map((call) => html`<${Running} key=${call.call_id} page=${page} call=${call} refresh=${refresh} />`)}</ul>`
        : html`<p class="quiet-text">${_("No turn waits for a tool call at the moment.")}</p>`}
    </section>
    <section class="card" aria-labelledby="behind">
      <h2 id="behind">${_("In the background")}</h2>
      ${running.length
        ? html`<ul class="processes">${running.map(drawn)}</ul>`
        : html`<p class="quiet-text">${_("Nothing runs in the background. Processes that an agent starts with its process tool are listed here; they keep running when the gateway restarts.")}</p>`}
    </section>
    ${ended.length > 0 && html`<section class="card" aria-labelledby="ended">
      <h2 id="ended">${_("Ended")}</h2>
      <ul class="processes">${ended.slice(0, SHOWN).map(drawn)}</ul>
      ${ended.length > SHOWN && html`<p class="quiet-text">${_n("And {n} earlier one.", "And {n} earlier ones.", ended.length - SHOWN)}</p>`}
    </section>`}`;
}

/** Durations are updated with each answer. */
function useTicking() {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || tick((before) => before + 1), 1000);
    return () => clearInterval(timer);
  }, []);
}

function Where({ page, session }) {
  return html`<span>${_("in {session}", { session: html`<${SessionLink} id=${session} title=${titleOf(page, session)} />` })}</span>`;
}

function Running({ page, call, refresh }) {
  const { session_id, turn_id, name, summary, started_at, output } = call;
  const stop = () => {
    const act = async () => {
      await api.stop(session_id);
      await refresh();
    };
    const sentences = [`${name} ${summary}`, _("This ends its turn, and drops the messages that wait in its chat.")];
    page.set({ dialog: { kind: "confirm", title: _("Stop this turn?"), verb: _("Stop turn"), danger: true, sentences, act } });
  };
  const facts = html`
    <span>${name}</span>
    <${Where} page=${page} session=${session_id} />
    <span>${_("for {time}", { time: lasted(Math.max(0, Date.now() / 1000 - started_at)) })}</span>
    <a href=${turnAddress(turn_id)}>${_("Timeline")}</a>
    <button type="button" class="link danger" data-changes onClick=${stop}>${_("Stop")}</button>`;
  return html`<${Unfolding} mark=${html`<${Spinner} />`} command=${summary || name} facts=${facts}>
    <${Written} text=${output} label=${_("Output of {process}", { process: name })} />
  <//>`;
}
