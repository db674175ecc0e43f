// A tool step: one line with a summary, which unfolds to its input and output.
import { useObservable } from "../observable.js";
import { _ } from "../translation.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Code } from "./code.js";
import { CopyButton } from "./copy.js";
import { Icon, Spinner } from "./icons.js";
import { plain } from "./plain.js";
import { count, lasted } from "./times.js";

const SHOWN = 20_000; // characters of output that are drawn before "Show all"

const ENDS = {
  ok: ["check", _("done"), "good"],
  error: ["cross", _("failed"), "bad"],
  cancelled: ["dash", _("cancelled; it may have had an effect"), "uncertain"],
  not_started: ["dash", _("not started"), "uncertain"],
  refused: ["ban", _("denied; it was not run"), "denied"],
  unknown: ["question", _("outcome unknown"), "uncertain"],
};

const RECOVERIES = {
  attached: [_("reattached"), _("The gateway was restarted meanwhile; the call kept running")],
  replayed: [_("run again"), _("The gateway was restarted meanwhile; the call was run again")],
};

const ICONS = {
  terminal: "terminal", process: "pulse", read: "file", write: "pencil", edit: "pencil",
  search: "search", fetch: "globe", todo: "list", delegate: "list", session_search: "search", browser: "globe",
};

export const iconOf = (tool) => ICONS[tool] ?? "tool";

/**
 * A call that is finished, running, waiting or interrupted. One component for all of these:
 * an unfolded step stays unfolded when it ends.
 */
export function Step({ call, result, began, live, running, ask }) {
  useObservable(result ? null : live);
  const runs = !result && live.runs(call.id);
  const elapsed = useElapsed(runs ? live.since.get(call.id) : null);
  const seconds = result ? (began === null ? NaN : result.at - began) : elapsed;
  const [icon, label, tone] = result ? ended(result) : open(runs, running);
  const output = result ? result.message.text : (live.outputs.get(call.id) ?? "");
  const state = html`<span class=${`outcome ${tone}`} title=${label}>
    ${icon ? html`<${Icon} name=${icon} />` : html`<${Spinner} />`}
    <span class="visually-hidden">${label}</span>
  </span>`;
  return html`<${Folded} call=${call} result=${result} state=${state} seconds=${seconds} output=${output} growing=${runs} tone=${tone} ask=${ask} />`;
}

function ended({ message }) {
  const [icon, label, tone] = ENDS[message.outcome ?? "ok"] ?? ENDS.unknown;
  const code = message.exit_code;
  return [icon, code ? _("{outcome}, exit code {code}", { outcome: label, code }) : label, tone];
}

function open(runs, running) {
  if (runs) return [null, _("running"), "running"];
  return running ? ["clock", _("waiting"), "waiting"] : ["dash", _("no result"), "uncertain"];
}

function useElapsed(since) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    if (!since) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [since]);
  return since ? Math.max(0, Math.floor((now - since) / 1000)) : NaN;
}

function Folded({ call, result, state, seconds, output, growing, tone, ask }) {
  const [open, setOpen] = useState(false);
  const { name, short } = summary(call);
  const duration = Number.isNaN(seconds) ? "" : lasted(seconds);
  const recovery = RECOVERIES[result?.message.taken_up];
  const code = result?.message.exit_code;
  return html`<details class=${`step ${tone}`} open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>
      <${Icon} name=${iconOf(call.name)} />
      <span class="name">${name}</span>
      <span class="short">${short}</span>
      ${recovery && html`<span class="recovery" title=${recovery[1]}>${recovery[0]}</span>`}
      ${code ? html`<span class="exit-code" aria-hidden="true">${_("exit code {code}", { code })}</span>` : null}
      <span class="duration">${duration}</span>
      ${state}
      <span class="fold"><${Icon} name="right" /></span>
    </summary>
    ${open && html`<${StepDetails} call=${call} result=${result} shortened=${output} growing=${growing} ask=${ask} />`}
  </details>`;
}

function StepDetails({ call, result, shortened, growing, ask }) {
  const given = argumentsOf(call);
  const { output, problem } = useFullOutput(result, shortened, ask);
  return html`<div class="step-details">
    <${Part} title=${given.title} text=${given.text} language=${given.language} />
    ${problem && html`<p class="problem" role="alert">${_("Could not load the output after the first {n} characters: {reason}", { n: count(shortened.length), reason: problem })}</p>`}
    ${output
      ? html`<${Output} text=${output} growing=${growing} />`
      : html`<p class="empty">${growing ? _("No output yet.") : _("No output.")}</p>`}
  </div>`;
}

/** The shortened output of the transcript, until the full output is loaded. */
function useFullOutput(result, shortened, ask) {
  const [state, setState] = useState({ output: null, problem: "" });
  useEffect(() => {
    if (!result?.full_length) return undefined;
    let current = true;
    ask(result).then(
      (output) => current && setState({ output, problem: "" }),
      (failure) => current && setState({ output: null, problem: failure.message }),
    );
    return () => {
      current = false;
    };
  }, [result?.seq]);
  return { output: state.output ?? shortened, problem: state.problem };
}

function Part({ title, text, language }) {
  return html`<figure class="code" dir="ltr">
    <figcaption><span>${title}</span><${CopyButton} text=${text} /></figcaption>
    <pre tabindex="0"><${Code} text=${text} language=${language} /></pre>
  </figure>`;
}

function Output({ text, growing }) {
  const [whole, setWhole] = useState(false);
  const output = plain(text);
  const shortened = !whole && output.length > SHOWN;
  // Of growing output, the end is shown.
  const shown = !shortened ? output : growing ? output.slice(-SHOWN) : output.slice(0, SHOWN);
  return html`<figure class="code output" dir="ltr">
    <figcaption><span>${growing ? _("Output so far") : _("Output")}</span><${CopyButton} text=${output} /></figcaption>
    <pre tabindex="0"><code>${shown}</code></pre>
    ${shortened && html`<button type="button" class="quiet" onClick=${() => setWhole(true)}>
      ${_("Show all {n} characters", { n: count(output.length) })}
    </button>`}
  </figure>`;
}

/** A short summary of a call: its main argument. */
export function summary({ name, arguments: given }) {
  const parsed = parse(given);
  if (parsed === null) return { name, short: given.slice(0, 200) };
  const action = typeof parsed.action === "string" ? parsed.action : "";
  const mainArgument = ["command", "path", "pattern", "url", "query", "id", "text"]
    .map((key) => parsed[key])
    .find((value) => typeof value === "string" && value);
  const tasks = Array.isArray(parsed.tasks) ? parsed.tasks.map((each) => each?.task ?? "").join(" · ") : null;
  const short = tasks ?? mainArgument ?? Object.values(parsed).find((value) => typeof value === "string") ?? "";
  return { name: action ? `${name} ${action}` : name, short: short === action ? "" : short.slice(0, 200) };
}

function argumentsOf({ arguments: given }) {
  const parsed = parse(given);
  if (parsed === null) return { title: _("Arguments"), text: given, language: "" };
  const keys = Object.keys(parsed);
  if (keys.length === 1 && typeof parsed.command === "string") {
    return { title: _("Command"), text: parsed.command, language: "bash" };
  }
  return { title: _("Arguments"), text: JSON.stringify(parsed, null, 2), language: "json" };
}

function parse(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
