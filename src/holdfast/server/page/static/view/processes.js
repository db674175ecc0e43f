// Background processes of a session: their output, and a button to end one.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "./use_fetched.js";
import { Icon, Spinner } from "./icons.js";
import { plain } from "./plain.js";
import { lasted } from "./times.js";

const EVERY = 2; // seconds, while the page is visible
const NEAR = 40; // pixels from the end that count as the end

export function Processes({ page, conversation }) {
  const { value: processes, problem, refresh } = useFetched(conversation, () => api.processes(conversation.id), EVERY);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!processes) return html`<p class="quiet-text">${_("Loading…")}</p>`;
  if (!processes.length) return html`<p class="quiet-text">${_("Nothing runs in the background.")}</p>`;
  return html`<ul class="processes">
    ${processes.map((process) => html`<${Process} key=${process.id} page=${page} process=${process} session=${conversation.id} source=${conversation} refresh=${refresh} />`)}
  </ul>`;
}

/** `source`: notifies of changes. `children`: more facts. */
export function Process({ page, process, session, source, refresh, children }) {
  const end = async () => {
    await api.kill(session, process.id);
    await refresh();
  };
  const duration = (process.ended_at ?? Date.now() / 1000) - process.started_at;
  const facts = html`
    <span>${process.id}</span>
    ${children}
    <span>${process.running ? _("running") : ended(process)} · ${lasted(duration)}</span>
    ${process.running && html`<button type="button" class="link danger" data-changes onClick=${() => page.set({ dialog: { kind: "kill", process, act: end } })}>${_("End")}</button>`}`;
  const mark = process.running ? html`<${Spinner} />` : html`<span class=${`outcome ${process.exit_code ? "bad" : ""}`}><${Icon} name=${markOf(process)} /></span>`;
  return html`<${Unfolding} mark=${mark} command=${process.command} facts=${facts}>
    <${Output} process=${process} session=${session} source=${source} />
  <//>`;
}

/** A running process, and its output when it is unfolded. */
export function Unfolding({ mark, command, facts, children }) {
  const [open, setOpen] = useState(false);
  return html`<li>
    <details open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        ${mark}
        <code>${command}</code>
        <span class="fold"><${Icon} name="right" /></span>
      </summary>
      ${open && children}
    </details>
    <p class="facts">${facts}</p>
  </li>`;
}

const markOf = ({ exit_code }) => (exit_code === 0 ? "check" : exit_code === null ? "dash" : "cross");

function ended({ exit_code, note }) {
  if (exit_code !== null) return _("exit code {code}", { code: exit_code });
  return note || _("ended");
}

function Output({ process, session, source }) {
  const ask = () => api.process(session, process.id);
  const { value, problem } = useFetched(source, ask, process.running ? EVERY : 0, [process.running]);
  if (problem) return html`<p class="problem">${problem}</p>`;
  return html`<${Written} text=${value && value.output} label=${_("Output of {process}", { process: process.id })} />`;
}

/** The end of the output; at its end, the view follows new output. */
export function Written({ text, label }) {
  const box = useRef(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const onScroll = ({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
    atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR;
  };
  return html`<pre ref=${box} tabindex="0" role="region" aria-label=${label} onScroll=${onScroll}><code>${text === null ? "…" : plain(text) || _("(no output yet)")}</code></pre>`;
}
