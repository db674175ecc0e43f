// Jobs: their schedules, their next runs, and a form to add one; one job by its number.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { Icon } from "../view/icons.js";
import { addressOf, queryParams } from "./url_query.js";
import { JobPage, jobStatus } from "./job.js";
import { JobForm } from "./job_form.js";
import { Due } from "./job_times.js";
import { RunState } from "./job_runs.js";
import { Moment } from "./moment.js";
import { Pages, Rows } from "./rows.js";

const EVERY = 10; // seconds; no event announces a scheduled run
const PAGE = 100;

const COLUMNS = [
  { name: "job", label: _("Job"), tone: "words", of: Job },
  { name: "state", label: _("State"), of: (job) => html`<${JobBadge} job=${job} />` },
  { name: "when", label: _("When"), of: ({ when, cron }) => html`${when}${cron && cron !== when && html`<small><code>${cron}</code></small>`}` },
  { name: "next", label: _("Next"), of: (job) => html`<${Due} job=${job} at=${job.upcoming[0]} />` },
  { name: "last", label: _("Last run"), tone: "words", of: LastRun },
  { name: "to", label: _("Answer to"), of: ({ to, silent }) => html`${to}${silent && html`<small title=${_("sends only if there is something to report")}>${_("silent")}</small>`}` },
];

export function View({ page }) {
  if (page.part !== null) return html`<${JobPage} key=${page.part} page=${page} id=${page.part} />`;
  return html`<${Jobs} page=${page} />`;
}

function Jobs({ page }) {
  const [making, setMaking] = useState(false);
  const offset = Number(queryParams().offset ?? 0) || 0;
  const { value, problem } = useFetched(page.changes, () => api.jobs({ limit: PAGE, offset }), EVERY, [offset]);
  return html`
    ${!making && html`<div class="filters" data-changes><button type="button" class="quiet outlined" onClick=${() => setMaking(true)}>
      <${Icon} name="plus" /> ${_("Add a job")}
    </button></div>`}
    ${making && html`<${JobForm} title=${_("New job")} verb=${_("Add")} act=${add} onClose=${() => setMaking(false)} />`}
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">${_("Loading…")}</p>`}
    ${value && html`<section class="card flush" aria-label=${_("All jobs")}><${List} value=${value} offset=${offset} /></section>`}`;
}

async function add(job) {
  const { id } = await api.addJob(job);
  location.hash = `#/jobs/${id}`;
}

function List({ value: { jobs, more }, offset }) {
  if (!jobs.length && !offset) return html`<${Teaching} />`;
  return html`
    <${Rows} label=${_("Jobs")} columns=${COLUMNS} rows=${jobs} keyOf=${({ id }) => id} />
    <${Pages} newest=${offset > 0 && "#/jobs"} older=${more && addressOf("jobs", { offset: offset + PAGE })} />`;
}

function Teaching() {
  return html`<div class="empty-hint">
    <p><strong>${_("There are no jobs.")}</strong> ${_("A job is something that an agent does later, or again and again. In any chat:")}</p>
    <pre><code>${'/cron add "every weekday at 9" Summarise what happened on the servers\n/cron add "in 2 hours" Remind me to call Ann'}</code></pre>
    <p>${_("You can also ask an agent to add a job, or run {command} in a shell.", { command: html`<code>holdfast jobs add</code>` })}</p>
  </div>`;
}

function Job({ id, name, text }) {
  return html`<a href=${`#/jobs/${id}`} dir="auto">${name}</a>${text !== name && html`<small class="excerpt" dir="auto">${text}</small>`}`;
}

export function LastRun({ last_run }) {
  if (!last_run) return _("none yet");
  return html`<${RunState} state=${last_run.state} /> <${Moment} at=${last_run.ended_at} />
    ${last_run.reason && html`<small class="problem">${last_run.reason}</small>`}`;
}

function JobBadge({ job }) {
  const [label, shape] = jobStatus(job);
  return html`<span class=${`badge ${shape}`}>${label}</span>`;
}
