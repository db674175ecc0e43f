// A tool step: one line that says what was done, and unfolds to what went in and came out.
import { useObserved } from "../observed.js";
import { html, useEffect, useState } from "../vendor/preact-htm.module.js";
import { Code } from "./code.js";
import { CopyButton } from "./copy.js";
import { Icon, Spinner } from "./icons.js";
import { memo } from "./memo.js";
import { lasted } from "./times.js";

const SHOWN = 20_000; // characters of output that are drawn before somebody asks for all
// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

const ENDS = {
  ok: ["check", "done", "good"],
  error: ["cross", "failed", "bad"],
  cancelled: ["dash", "cancelled; it may have had an effect", "cut"],
  not_started: ["dash", "not started", "cut"],
  unknown: ["question", "nobody knows how it ended", "cut"],
};

const ICONS = {
  terminal: "terminal", process: "pulse", read: "file", write: "pencil", edit: "pencil",
  search: "search", fetch: "globe", todo: "list",
};

/** A call with its result. Memoised: a transcript of thousands draws each of them once. */
export const DoneStep = memo(function DoneStep({ call, result, began }) {
  const outcome = result.message.outcome ?? "ok";
  const [icon, said, tone] = ENDS[outcome] ?? ENDS.unknown;
  const state = html`<span class=${`outcome ${tone}`} title=${said}>
    <${Icon} name=${icon} /><span class="offstage">${said}</span>
  </span>`;
  const seconds = began === null ? NaN : result.at - began;
  return html`<${Folded}
    call=${call} state=${state} seconds=${seconds} output=${result.message.text} tone=${tone}
  />`;
});

/** A call without a result: it runs, waits its turn, or was cut. */
export function OpenStep({ call, live, running }) {
  useObserved(live);
  const runs = live.runs(call.id);
  const seconds = useElapsed(runs ? live.since.get(call.id) : null);
  const said = runs ? "running" : running ? "waiting" : "no result";
  const state = html`<span class="outcome" title=${said}>
    ${runs ? html`<${Spinner} />` : html`<${Icon} name="dash" />`}
    <span class="offstage">${said}</span>
  </span>`;
  return html`<${Folded} call=${call} state=${state} seconds=${seconds}
    output=${live.outputs.get(call.id) ?? ""} growing=${runs} tone=${runs ? "running" : "cut"} />`;
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

function Folded({ call, state, seconds, output, growing = false, tone }) {
  const [open, setOpen] = useState(false);
  const { name, short } = summary(call);
  const took = Number.isNaN(seconds) ? "" : lasted(seconds);
  return html`<details class=${`step ${tone}`} open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>
      <${Icon} name=${ICONS[call.name] ?? "tool"} />
      <span class="name">${name}</span>
      <span class="short">${short}</span>
      <span class="took">${took}</span>
      ${state}
      <span class="fold"><${Icon} name="right" /></span>
    </summary>
    ${open && html`<${Inside} call=${call} output=${output} growing=${growing} />`}
  </details>`;
}

function Inside({ call, output, growing }) {
  const given = argumentsOf(call);
  return html`<div class="inside">
    <${Part} title="Arguments" text=${given.text} language=${given.language} />
    ${output
      ? html`<${Output} text=${output} growing=${growing} />`
      : html`<p class="empty">${growing ? "No output yet." : "No output."}</p>`}
  </div>`;
}

function Part({ title, text, language }) {
  return html`<figure class="code">
    <figcaption><span>${title}</span><${CopyButton} text=${text} /></figcaption>
    <pre tabindex="0"><${Code} text=${text} language=${language} /></pre>
  </figure>`;
}

function Output({ text, growing }) {
  const [whole, setWhole] = useState(false);
  const plain = text.replace(ESCAPES, "");
  const cut = !whole && plain.length > SHOWN;
  // What is still growing is interesting at its end.
  const shown = !cut ? plain : growing ? plain.slice(-SHOWN) : plain.slice(0, SHOWN);
  return html`<figure class="code output">
    <figcaption><span>${growing ? "Output so far" : "Output"}</span><${CopyButton} text=${plain} /></figcaption>
    <pre tabindex="0"><code>${shown}</code></pre>
    ${cut && html`<button type="button" class="quiet" onClick=${() => setWhole(true)}>
      Show all ${plain.length.toLocaleString()} characters
    </button>`}
  </figure>`;
}

/** What a call does, in a few words: its most telling argument. */
export function summary({ name, arguments: given }) {
  const parsed = parse(given);
  if (parsed === null) return { name, short: given.slice(0, 200) };
  const action = typeof parsed.action === "string" ? parsed.action : "";
  const telling = ["command", "path", "pattern", "url", "query", "id", "text"]
    .map((key) => parsed[key])
    .find((value) => typeof value === "string" && value);
  const short = telling ?? Object.values(parsed).find((value) => typeof value === "string") ?? "";
  return { name: action ? `${name} ${action}` : name, short: short === action ? "" : short.slice(0, 200) };
}

function argumentsOf({ arguments: given }) {
  const parsed = parse(given);
  if (parsed === null) return { text: given, language: "" };
  const keys = Object.keys(parsed);
  if (keys.length === 1 && typeof parsed.command === "string") {
    return { text: parsed.command, language: "bash" };
  }
  return { text: JSON.stringify(parsed, null, 2), language: "json" };
}

function parse(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
