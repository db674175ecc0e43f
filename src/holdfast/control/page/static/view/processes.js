// The background processes of a session: what runs, what it says, and how to end it.
import { api } from "../api.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "./fetched.js";
import { Icon, Spinner } from "./icons.js";
import { lasted } from "./times.js";

const EVERY = 2; // seconds; only while the panel is open

export function Processes({ page, conversation }) {
  const { value: processes, problem, look } = useFetched(conversation, () => api.processes(conversation.id), EVERY);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!processes) return html`<p class="quiet-text">Loading…</p>`;
  if (!processes.length) return html`<p class="quiet-text">Nothing runs in the background.</p>`;
  return html`<ul class="processes">
    ${processes.map((process) => html`<${Process} key=${process.id} page=${page} process=${process} conversation=${conversation} look=${look} />`)}
  </ul>`;
}

function Process({ page, process, conversation, look }) {
  const [open, setOpen] = useState(false);
  const end = async () => {
    await api.kill(conversation.id, process.id);
    await look();
  };
  const took = (process.ended_at ?? Date.now() / 1000) - process.started_at;
  return html`<li>
    <details open=${open} onToggle=${(event) => setOpen(event.currentTarget.open)}>
      <summary>
        ${process.running ? html`<${Spinner} />` : html`<${Icon} name=${process.exit_code === 0 ? "check" : "dash"} />`}
        <code>${process.command}</code>
        <span class="fold"><${Icon} name="right" /></span>
      </summary>
      ${open && html`<${Output} process=${process} conversation=${conversation} />`}
    </details>
    <p class="facts">
      <span>${process.id}</span>
      <span>${process.running ? "running" : ended(process)} · ${lasted(took)}</span>
      ${process.running && html`<button type="button" class="link danger" data-changes onClick=${() => page.set({ dialog: { kind: "kill", process, act: end } })}>End</button>`}
    </p>
  </li>`;
}

const ended = ({ exit_code }) => (exit_code === null ? "ended" : `exit ${exit_code}`);

function Output({ process, conversation }) {
  const ask = () => api.process(conversation.id, process.id);
  const { value, problem } = useFetched(conversation, ask, process.running ? EVERY : 0, [process.running]);
  if (problem) return html`<p class="problem">${problem}</p>`;
  return html`<pre tabindex="0"><code>${value ? value.output || "(no output yet)" : "…"}</code></pre>`;
}
