// One job: its settings, its next runs, its actions, and the history of its runs.
import { api } from "../api.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { lasted } from "../view/times.js";
import { JobForm } from "./job_form.js";
import { Due } from "./job_times.js";
import { JobRuns } from "./job_runs.js";

const EVERY = 10; // seconds; no event announces a scheduled run
const SOON = 3; // while a run is active

export function jobStatus({ running, paused, next_due }) {
  if (running) return ["running", "good"];
  if (paused) return ["paused", "paused"];
  return next_due === null ? ["over", "paused"] : ["waits", "good"];
}

export function JobPage({ page, id }) {
  const [often, setOften] = useState(false);
  const ask = async () => {
    const [job, runs] = await Promise.all([api.job(id), api.runs(id, 100)]);
    setOften(job.running || runs.some(({ ended_at, state }) => ended_at === null && state === "waiting"));
    return { job, runs };
  };
  const { value, problem, refresh } = useFetched(page.changes, ask, often ? SOON : EVERY, [id, often]);
  return html`
    <p class="back-link"><a href="#/jobs">All jobs</a></p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">Loading…</p>`}
    ${value && html`<${About} page=${page} job=${value.job} refresh=${refresh} />
      <section class="card flush" aria-labelledby="runs"><h2 id="runs">Runs</h2><${JobRuns} runs=${value.runs} /></section>`}`;
}

function About({ page, job, refresh }) {
  const [changing, setChanging] = useState(false);
  const [label, shape] = jobStatus(job);
  const rewrite = async (changes) => {
    if (Object.keys(changes).length) await api.changeJob(job.id, changes);
    setChanging(false);
    await refresh();
  };
  if (changing) return html`<${JobForm} job=${job} title=${`Change ${job.name}`} verb="Save" act=${rewrite} onClose=${() => setChanging(false)} />`;
  const facts = [
    ["When", `${job.when}${job.cron && job.cron !== job.when ? ` (${job.cron})` : ""}`],
    ["Answer to", job.silent ? `${job.to}, only if there is something to tell` : job.to],
    ["Runs in", job.session === "fresh" ? "a session of its own each time" : "the conversation it was made in"],
    ["Missed times", { skip: "are passed over", once: "make one run", all: "are each made up for" }[job.missed]],
    ["While one runs", { skip: "the next is passed over", queue: "the next waits", replace: "the next replaces it" }[job.overlap]],
    ["May take", job.limit ? lasted(job.limit) : "as long as it likes"],
    ["Belongs to", job.owner],
  ];
  return html`<section class="card" aria-labelledby="job">
    <header class="between"><h2 id="job">${job.name}</h2><span class=${`badge ${shape}`}>${label}</span></header>
    ${job.text !== job.name && html`<p class="full-text">${job.text}</p>`}
    <dl class="about">
      ${facts.map(([name, sentences]) => html`<div key=${name}><dt>${name}</dt><dd>${sentences}</dd></div>`)}
      ${job.upcoming.length > 0 && html`<div><dt>Next</dt><dd><ol>${job.upcoming.map((at) => html`<li key=${at}><${Due} job=${job} at=${at} /></li>`)}</ol></dd></div>`}
    </dl>
    <${Acts} page=${page} job=${job} refresh=${refresh} onChange=${() => setChanging(true)} />
  </section>`;
}

function Acts({ page, job, refresh, onChange }) {
  const [acting, setActing] = useState("");
  const [problem, setProblem] = useState("");
  const act = async (name, body) => {
    setActing(name);
    try {
      await body();
      setProblem("");
    } catch (failure) {
      setProblem(failure.message);
    }
    setActing("");
    await refresh();
  };
  const remove = async () => {
    await api.removeJob(job.id);
    location.hash = "#/jobs";
  };
  const sentences = [`${job.name}: ${job.when}`, "It is gone with its history. What runs of it goes on to its end."];
  const question = { kind: "confirm", title: "Remove this job?", verb: "Remove", danger: true, sentences, act: remove };
  const button = (label, body) => html`<button type="button" class="quiet outlined" disabled=${acting !== ""} onClick=${() => act(label, body)}>${acting === label ? `${label}…` : label}</button>`;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <p class="actions" data-changes>
      ${button("Run now", () => api.runJob(job.id))}
      ${job.running && button("Stop", () => api.stopJob(job.id))}
      ${job.next_due !== null && button(job.paused ? "Resume" : "Pause", () => api.changeJob(job.id, { paused: !job.paused }))}
      <button type="button" class="quiet outlined" onClick=${onChange}>Change…</button>
      <button type="button" class="quiet outlined bad" onClick=${() => page.set({ dialog: question })}>Remove…</button>
    </p>`;
}
