// The form that adds or changes a job: when, what, and, folded, its options.
import { _ } from "../translation.js";
import { html, useEffect, useRef, useState } from "../vendor/preact-htm.module.js";

const MISSED = { once: _("run once for all of them"), skip: _("skip them"), all: _("run each of them") };
const OVERLAP = { skip: _("is skipped"), queue: _("waits for it"), replace: _("stops it") };
const FIELDS = { when: "", text: "", name: "", zone: "", to: "", limit: "", missed: "once", overlap: "skip" };

/** `job`: the one to change; without it, a new one. `act` gets the values and may refuse them. */
export function JobForm({ job = null, title, verb, act, onClose }) {
  const [problem, setProblem] = useState("");
  const [acting, setActing] = useState(false);
  const first = useRef(null);
  useEffect(() => first.current.focus(), []);
  const current = job ?? { ...FIELDS, silent: false };
  const submit = async (event) => {
    event.preventDefault();
    setActing(true);
    try {
      await act(formValues(new FormData(event.target), current));
    } catch (failure) {
      setProblem(failure.message);
      setActing(false);
    }
  };
  const field = (name, more = {}) => html`<input name=${name} maxlength="400" autocomplete="off" defaultValue=${current[name]} ...${more} />`;
  const choice = (name, choices) => html`<select name=${name}>${Object.entries(choices).map(([value, label]) => html`<option key=${value} value=${value} selected=${value === current[name]}>${label}</option>`)}</select>`;
  return html`<form class="card job-form" aria-labelledby="job-form" onSubmit=${submit}>
    <h2 id="job-form">${title}</h2>
    <label>${_("When")}<input ref=${first} name="when" required maxlength="500" autocomplete="off" defaultValue=${current.when} aria-describedby="when-help" />
      <small id="when-help">${_("for example:")} every weekday at 9 · in 2 hours · every month on the 1st at 8:30 · 2026-12-01 09:00 · 0 9 * * 1-5</small></label>
    <label>${_("Task for the agent")}<textarea name="text" required maxlength="8000" rows="3" defaultValue=${current.text}></textarea></label>
    <details class="fold-out"><summary>${_("Options")}</summary><div class="fields">
      <label>${_("Name")}${field("name", { placeholder: _("the beginning of the text") })}</label>
      <label>${_("Time zone")}${field("zone", { placeholder: "Europe/Berlin" })}</label>
      <label>${_("Answer to")}${field("to", { placeholder: _("home, nowhere or platform:chat") })}</label>
      <label>${_("Time limit of a run, in seconds")}${field("limit", { type: "number", min: 0, max: 10_000_000, placeholder: _("0: no limit") })}</label>
      <label>${_("Missed runs")}${choice("missed", MISSED)}</label>
      <label>${_("While one runs, the next")}${choice("overlap", OVERLAP)}</label>
      <label class="tick-box"><input name="silent" type="checkbox" defaultChecked=${current.silent} /> ${_("Send nothing if there is nothing to report")}</label>
    </div></details>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <p class="actions"><button type="submit" class="primary" disabled=${acting}>${verb}</button>
      <button type="button" class="quiet" onClick=${onClose}>${_("Cancel")}</button></p>
  </form>`;
}

/** The changed values: all others stay, or get their default. A zone belongs to a time. */
function formValues(form, current) {
  const given = { ...Object.fromEntries(form), silent: form.has("silent") };
  const changed = Object.fromEntries(Object.entries(given).filter(([name, value]) => String(value) !== String(current[name])));
  if (changed.limit !== undefined) changed.limit = Number(changed.limit);
  if (changed.zone !== undefined) changed.when = given.when;
  else if (changed.when !== undefined && given.zone) changed.zone = given.zone;
  return changed;
}
