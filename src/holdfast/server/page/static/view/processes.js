// Background processes: what runs, what it says, and how to end it; those of a session as a list.
import { api } from "../api.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "./use_fetched.js";
import { Icon, Spinner } from "./icons.js";
import { plain } from "./plain.js";
import { lasted } from "./times.js";

const EVERY = 2; // seconds; only while somebody looks
const NEAR = 40; // pixels from the end within which one is taken to read along

export function Processes({ page, conversation }) {
  const { value: processes, problem, look } = useFetched(conversation, () => api.processes(conversation.id), EVERY);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!processes) return html`<p class="quiet-text">Loading…</p>`;
  if (!processes.length) return html`<p class="quiet-text">Nothing runs in the background.</p>`;
  return html`<ul class="processes">
    ${processes.map((process) => html`<${Process} key=${process.id} page=${page} process=${process} session=${conversation.id} told=${conversation} look=${look} />`)}
  </ul>`;
}

/** `told`: says when there is something newer. `children`: what is to be known besides. */
export function Process({ page, process, session, told, look, children }) {
  const end = async () => {
    await api.kill(session, process.id);
    await look();
  };
  const took = (process.ended_at ?? Date.now() / 1000) - process.started_at;
  const facts = html`
    <span>${process.id}</span>
    ${children}
    <span>${process.running ? "running" : ended(process)} · ${lasted(took)}</span>
    ${process.running && html`<button type="button" class="link danger" data-changes onClick=${() => page.set({ dialog: { kind: "kill", process, act: end } })}>End</button>`}`;
  const mark = process.running ? html`<${Spinner} />` : html`<${Icon} name=${process.exit_code === 0 ? "check" : "dash"} />`;
  return html`<${Unfolding} mark=${mark} command=${process.command} facts=${facts}>
    <${Output} process=${process} session=${session} told=${told} />
  <//>`;
}

/** One that runs, and what it has written where somebody unfolds it. */
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

function ended({ exit_code, note }) {
  if (exit_code !== null) return `exit ${exit_code}`;
  return note || "ended";
}

function Output({ process, session, told }) {
  const ask = () => api.process(session, process.id);
  const { value, problem } = useFetched(told, ask, process.running ? EVERY : 0, [process.running]);
  if (problem) return html`<p class="problem">${problem}</p>`;
  return html`<${Written} text=${value && value.output} label=${`Output of ${process.id}`} />`;
}

/** The end of what was written; whoever is at its end stays there while it grows. */
export function Written({ text, label }) {
  const box = useRef(null);
  const along = useRef(true);
  useLayoutEffect(() => {
    if (along.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text]);
  const onScroll = ({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
    along.current = scrollHeight - scrollTop - clientHeight < NEAR;
  };
  return html`<pre ref=${box} tabindex="0" role="region" aria-label=${label} onScroll=${onScroll}><code>${text === null ? "…" : plain(text) || "(no output yet)"}</code></pre>`;
}
