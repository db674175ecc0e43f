// One job: its settings, its next runs, its actions, and the history of its runs.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { lasted } from "../view/times.js";
import { JobForm } from "./job_form.js";
import { Due } from "./job_times.js";
import { JobRuns } from "./job_runs.js";

const EVERY = 10; // seconds; no event announces a scheduled run
const SOON = 3; // while a run is active

export function jobStatus({ running, paused, next_due }) {
  if (running) return [_("running"), "good"];
  if (paused) return [_("paused"), "paused"];
  return next_due === null ? [_("over"), "paused"] : [_("scheduled"), "good"];
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
    <p class="back-link"><a href="#/jobs">${_("All jobs")}</a></p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">${_("Loading…")}</p>`}
    ${value && html`<${About} page=${page} job=${value.job} refresh=${refresh} />
      <section class="card flush" aria-labelledby="runs"><h2 id="runs">${_("Runs")}</h2><${JobRuns} runs=${value.runs} /></section>`}`;
}

function About({ page, job, refresh }) {
  const [changing, setChanging] = useState(false);
  const [label, shape] = jobStatus(job);
  const rewrite = async (changes) => {
    if (Object.keys(changes).length) await api.changeJob(job.id, changes);
    setChanging(false);
    await refresh();
  };
  if (changing) return html`<${JobForm} job=${job} title=${_("Change {job}", { job: job.name })} verb=${_("Save")} act=${rewrite} onClose=${() => setChanging(false)} />`;
  const facts = [
    [_("When"), `${job.when}${job.cron && job.cron !== job.when ? ` (${job.cron})` : ""}`],
    [_("Answer to"), job.silent ? _("{chat}, only if there is something to report", { chat: job.to }) : job.to],
    [_("Runs in"), job.session === "fresh" ? _("a new session each time") : _("the conversation in which it was created")],
    [_("Missed runs"), { skip: _("are skipped"), once: _("are caught up on with one run"), all: _("are all caught up on") }[job.missed]],
    [_("While one runs"), { skip: _("the next is skipped"), queue: _("the next waits"), replace: _("the next replaces it") }[job.overlap]],
    [_("Time limit"), job.limit ? lasted(job.limit) : _("none")],
    [_("Owner"), job.owner],
  ];
  return html`<section class="card" aria-labelledby="job">
    <header class="between"><h2 id="job">${job.name}</h2><span class=${`badge ${shape}`}>${label}</span></header>
    ${job.text !== job.name && html`<p class="full-text">${job.text}</p>`}
    <dl class="about">
      ${facts.map(([name, sentences]) => html`<div key=${name}><dt>${name}</dt><dd>${sentences}</dd></div>`)}
      ${job.upcoming.length > 0 && html`<div><dt>${_("Next")}</dt><dd><ol>${job.upcoming.map((at) => html`<li key=${at}><${Due} job=${job} at=${at} /></li>`)}</ol></dd></div>`}
    </dl>
    <${Acts} page=${page} job=${job} refresh=${refresh} onChange=${() => setChanging(true)} />
  </section>`;
}

const ACTS = {
  run: { label: _("Run now"), busy: _("Starting…") },
  stop: { label: _("Stop"), busy: _("Stopping…") },
  pause: { label: _("Pause"), busy: _("Pausing…") },
  resume: { label: _("Resume"), busy: _("Resuming…") },
};

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
  const sentences = [`${job.name}: ${job.when}`, _("This also deletes its history. A run that is active continues to its end.")];
  const question = { kind: "confirm", title: _("Remove this job?"), verb: _("Remove"), danger: true, sentences, act: remove };
  const button = (name, { label, busy }, body) => html`<button type="button" class="quiet outlined" disabled=${acting !== ""} onClick=${() => act(name, body)}>${acting === name ? busy : label}</button>`;
  return html`
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <p class="actions" data-changes>
      ${button("run", ACTS.run, () => api.runJob(job.id))}
      ${job.running && button("stop", ACTS.stop, () => api.stopJob(job.id))}
      ${job.next_due !== null && button("pause", job.paused ? ACTS.resume : ACTS.pause, () => api.changeJob(job.id, { paused: !job.paused }))}
      <button type="button" class="quiet outlined" onClick=${onChange}>${_("Change…")}</button>
      <button type="button" class="quiet outlined bad" onClick=${() => page.set({ dialog: question })}>${_("Remove…")}</button>
    </p>`;
}
