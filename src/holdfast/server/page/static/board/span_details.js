// The details of a timeline row: the text of a reply, or the input and output of a call.
import { api } from "../api.js";
import { Observable } from "../observable.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { Markdown } from "../view/markdown.js";
import { Step } from "../view/step.js";

const NO_EVENTS = new Observable();

export function Details({ line, lines, session }) {
  const { span } = line;
  const seq = span?.record ?? null;
  const to = html`<a href=${`#/chat/${encodeURIComponent(session)}/${seq}`}>${_("Show it in the chat")}</a>`;
  return html`<div class="span-details">
    ${line.about && html`<p class="about">${line.about}</p>`}
    ${line.end && html`<p class="quiet-text">${_("Outcome: {outcome}", { outcome: line.end })}</p>`}
    ${seq !== null && html`<${Recorded} session=${session} span=${span} call=${callOf(line, lines)} />`}
    ${seq !== null && html`<p>${to}</p>`}
    ${span?.kind === "approval" && html`<p><a href="#/approvals">${_("Approvals")}</a></p>`}
    ${line.kind === "delivery" && html`<p><a href="#/outbox">${_("Outbox")}</a></p>`}
    ${seq === null && !line.about && !line.end && html`<p class="quiet-text">${_("There are no more details.")}</p>`}
  </div>`;
}

/** The record of the reply that made the call. */
function callOf({ span }, lines) {
  if (span.kind !== "tool") return null;
  const replies = lines.filter(({ kind, span: each }) => kind === "model" && each.record !== null && each.record < span.record);
  return replies.at(-1)?.span.record ?? null;
}

function Recorded({ session, span, call }) {
  const ask = async () => {
    const [reply, own] = await Promise.all([call === null ? null : record(session, call), record(session, span.record)]);
    return { reply, own };
  };
  const { value, problem } = useFetched(NO_EVENTS, ask, 0, [span.record]);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!value) return html`<p class="quiet-text">${_("Loading…")}</p>`;
  const { reply, own } = value;
  if (!own) return html`<p class="quiet-text">${_("It is no longer in the transcript.")}</p>`;
  if (span.kind === "tool") return html`<${Called} span=${span} reply=${reply} result=${own} />`;
  const { text = "", calls = [] } = own.message;
  return html`
    ${text && html`<div class="prose"><${Markdown} text=${text} /></div>`}
    ${calls.length > 0 && html`<p class="quiet-text">${_("It called {tools}.", { tools: calls.map(({ name }) => name).join(", ") })}</p>`}`;
}

function Called({ span, reply, result }) {
  const { call_id, name } = result.message;
  const call = reply?.message.calls?.find(({ id }) => id === call_id) ?? { id: call_id, name, arguments: "{}" };
  return html`<${Step} call=${call} result=${result} began=${span.started_at} live=${null} running=${false} />`;
}

async function record(session, seq) {
  const { records } = await api.transcript(session, { after: seq - 1, limit: 1 });
  return records.find((each) => each.seq === seq) ?? null;
}
