// The form by which a job is made: when, what, and, folded away, how it is to be.
import { api } from "../api.js";
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";

const MISSED = { once: "one run for all of them", skip: "none", all: "each of them" };
const OVERLAP = { skip: "passed over", queue: "waits for it", replace: "stops it" };

export function NewJob({ onClose }) {
  const [problem, setProblem] = useState("");
  const [acting, setActing] = useState(false);
  const first = useRef(null);
  useEffect(() => first.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    setActing(true);
    try {
      const { id } = await api.addJob(wanted(new FormData(event.target)));
      location.hash = `#/jobs/${id}`;
    } catch (failure) {
      setProblem(failure.message);
      setActing(false);
    }
  };
  return html`<form class="card job-form" aria-labelledby="new-job" onSubmit=${submit}>
    <h2 id="new-job">A new job</h2>
    <label>When<input ref=${first} name="when" required maxlength="500" autocomplete="off" aria-describedby="when-help" />
      <small id="when-help">every weekday at 9 · in 2 hours · every month on the 1st at 8:30 · 2026-12-01 09:00 · 0 9 * * 1-5</small></label>
    <label>What the agent is to do<textarea name="text" required maxlength="8000" rows="3"></textarea></label>
    <details class="fold-out"><summary>How it is to be</summary><div class="fields">
      <label>Name<input name="name" maxlength="400" placeholder="the beginning of the text" /></label>
      <label>Time zone<input name="zone" maxlength="400" placeholder="Europe/Berlin" /></label>
      <label>Answer to<input name="to" maxlength="400" placeholder="home, nowhere or platform:chat" /></label>
      <label>A run may take, in seconds<input name="limit" type="number" min="0" max="10000000" placeholder="0: no limit" /></label>
      <label>Of missed times<select name="missed">${options(MISSED)}</select></label>
      <label>While one runs, the next<select name="overlap">${options(OVERLAP)}</select></label>
      <label class="tick-box"><input name="silent" type="checkbox" /> Say nothing where there is nothing to tell</label>
    </div></details>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <p class="acts"><button type="submit" class="primary" disabled=${acting}>Add</button>
      <button type="button" class="quiet" onClick=${onClose}>Cancel</button></p>
  </form>`;
}

const options = (choices) => Object.entries(choices).map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`);

/** What was left empty is left to the gateway. */
function wanted(form) {
  const given = Object.fromEntries([...form].filter(([, value]) => value !== ""));
  return { ...given, silent: form.has("silent"), ...(given.limit ? { limit: Number(given.limit) } : {}) };
}
