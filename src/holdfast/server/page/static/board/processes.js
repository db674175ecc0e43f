// Processes: background processes of all sessions, and running calls of turns.
import { api } from "../api.js";
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
  if (!value) return html`<p class=${problem ? "problem" : "quiet-text"} role=${problem ? "alert" : undefined}>${problem || "Loading…"}</p>`;
  const { processes, calls } = value;
  const running = processes.filter(({ running: runs }) => runs);
  const ended = processes.filter(({ running: runs }) => !runs);
  const drawn = (process) => html`<${Process} key=${`${process.session_id} ${process.id}`} page=${page} process=${process} session=${process.session_id} source=${page.changes} refresh=${refresh}>
    <${Where} page=${page} session=${process.session_id} />
    <span>since <${Moment} at=${process.started_at} /></span>
    ${process.memory !== null && html`<span>${size(process.memory)}</span><span>${lasting(process.cpu)} CPU</span>`}
  <//>`;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem} What is shown is as old as that.</p>`}
    <section class="card" aria-labelledby="calls">
      <h2 id="calls">In the foreground</h2>
      ${calls.length
        ? html`<ul class="processes">${calls.map((call) => html`<${Running} key=${call.call_id} page=${page} call=${call} refresh=${refresh} />`)}</ul>`
        : html`<p class="quiet-text">No turn waits for a call at the moment.</p>`}
    </section>
    <section class="card" aria-labelledby="behind">
      <h2 id="behind">In the background</h2>
      ${running.length
        ? html`<ul class="processes">${running.map(drawn)}</ul>`
        : html`<p class="quiet-text">Nothing runs in the background. What an agent starts with its process tool is listed here, and goes on through a restart of the gateway.</p>`}
    </section>
    ${ended.length > 0 && html`<section class="card" aria-labelledby="ended">
      <h2 id="ended">Ended</h2>
      <ul class="processes">${ended.slice(0, SHOWN).map(drawn)}</ul>
      ${ended.length > SHOWN && html`<p class="quiet-text">And ${ended.length - SHOWN} more before these.</p>`}
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
  return html`<span>in <${SessionLink} id=${session} title=${titleOf(page, session)} /></span>`;
}

function Running({ page, call, refresh }) {
  const { session_id, turn_id, name, summary, started_at, output } = call;
  const stop = () => {
    const act = async () => {
      await api.stop(session_id);
      await refresh();
    };
    const sentences = [`${name} ${summary}`, "Its turn ends for good with it, and what waits behind that in its chat is dropped."];
    page.set({ dialog: { kind: "confirm", title: "Stop this turn?", verb: "Stop it", danger: true, sentences, act } });
  };
  const facts = html`
    <span>${name}</span>
    <${Where} page=${page} session=${session_id} />
    <span>for ${lasted(Math.max(0, Date.now() / 1000 - started_at))}</span>
    <a href=${turnAddress(turn_id)}>Timeline</a>
    <button type="button" class="link danger" data-changes onClick=${stop}>Stop</button>`;
  return html`<${Unfolding} mark=${html`<${Spinner} />`} command=${summary || name} facts=${facts}>
    <${Written} text=${output} label=${`Output of ${name}`} />
  <//>`;
}
