// The committed records, in chunks: a chunk that did not change is not drawn again.
import { CHUNK, writable } from "../conversation.js";
import { _ } from "../translation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Markdown } from "./markdown.js";
import { memo } from "./memo.js";
import { Answer, Compacted, Note, UserMessage, TurnEnd } from "./messages.js";
import { Reasoned } from "./reasoning.js";
import { Step } from "./step.js";

const HEIGHT = 44; // average height of a record in pixels, for chunks that are not visible

/** Chunks of {index, records, results, called, answers, next, retry, signature}. */
export function chunks(conversation) {
  const { records, answers, turns, running, base } = conversation;
  // By seq: older records that are loaded later move no record to another chunk.
  const chunkIndex = (seq) => Math.floor((seq - base) / CHUNK);
  const results = new Map();
  const called = new Set();
  for (const record of records) {
    if (record.message.type === "tool") results.set(record.message.call_id, record);
    for (const call of record.message.calls ?? []) called.add(call.id);
  }
  const found = [];
  for (const record of records) {
    const index = chunkIndex(record.seq);
    if (found.at(-1)?.index !== index) found.push({ index, records: [], results, called, answers: [], next: null });
    found.at(-1).records.push(record);
  }
  for (const answer of answers) {
    found.find(({ index }) => index === chunkIndex(answer.after))?.answers.push(answer);
  }
  found.forEach((chunk, index) => {
    chunk.next = found[index + 1]?.records[0].turn_id ?? null;
    chunk.retry = index === found.length - 1 && mayRetry(conversation);
    chunk.signature = signature(chunk, turns, running);
  });
  return found;
}

/** Whether the message of the last turn, which failed, can be answered again. */
function mayRetry({ records, turns, running, session }) {
  return turns.get(records.at(-1).turn_id)?.state === "failed" && !running && session !== null && writable(session);
}

/** Everything about a chunk that can change how it is drawn. */
function signature({ records, results, called, answers, next, retry }, turns, running) {
  let [ended, open, orphans, undone] = [0, 0, 0, 0];
  const states = [];
  let turn = null;
  for (const { message, turn_id, undone: back } of records) {
    if (back) undone += 1;
    for (const call of message.calls ?? []) results.has(call.id) ? (ended += 1) : (open += 1);
    if (message.type === "tool" && !called.has(message.call_id)) orphans += 1;
    if (turn_id !== turn) states.push(turns.get((turn = turn_id))?.state);
  }
  const ends = [records[0].seq, records.at(-1).seq, ended, open, orphans, undone, answers.length, next, retry];
  return [...ends, ...states, open ? running : ""].join();
}

export class Chunk extends memo(DrawnChunk) {
  shouldComponentUpdate(next) {
    return next.chunk.signature !== this.props.chunk.signature || next.conversation !== this.props.conversation;
  }
}

function DrawnChunk({ chunk, conversation, annotations }) {
  const { records, answers, next, retry } = chunk;
  const items = [];
  let back = null; // the group of records that were undone together
  records.forEach((record, index) => {
    const { turn_id, seq, undone } = record;
    const drawn = draw(record, chunk, conversation, annotations);
    if (!undone) back = null;
    else if (!back) items.push(html`<${Undone} key=${`back-${seq}`} items=${(back = [])} />`);
    if (drawn) (back ?? items).push(drawn);
    const following = index + 1 < records.length ? records[index + 1].turn_id : next;
    const turn = turn_id && following !== turn_id && conversation.turns.get(turn_id);
    if (turn) (back ?? items).push(html`<${TurnEnd} key=${`end-${seq}`} state=${turn.state} reason=${turn.reason}
      onRetry=${retry && seq === conversation.last ? () => conversation.retry() : null} />`);
    if (annotations && turn_id && following !== turn_id) {
      (back ?? items).push(html`<${annotations.Turn} key=${`turn-${turn_id}`} id=${turn_id} seq=${seq} stats=${annotations.stats} />`);
    }
    for (const answer of answers) {
      if (answer.after !== seq) continue;
      items.push(html`<${Answer} key=${`answer-${answer.id}`} answer=${answer} />`);
      back = null; // the answer is newer than these records, so it is below them
    }
  });
  const style = { containIntrinsicSize: `auto ${records.length * HEIGHT}px` };
  return html`<div class="chunk" style=${style}>${items}</div>`;
}

function draw(record, { results, called }, conversation, annotations) {
  const { message, seq } = record;
  switch (message.type) {
    case "user":
      return html`<${UserMessage} key=${seq} record=${record} session=${conversation.id} />`;
    case "note":
      return html`<${Note} key=${seq} seq=${seq} text=${message.text} />`;
    case "compaction":
      return html`<${Compacted} key=${seq} seq=${seq} text=${message.text} />`;
    case "tool":
      return called.has(message.call_id) ? null : html`<${Orphan} key=${seq} record=${record} conversation=${conversation} />`;
    default:
      return html`<${Reply} key=${seq} record=${record} conversation=${conversation} annotations=${annotations}
        results=${(message.calls ?? []).map((call) => results.get(call.id) ?? null)} running=${conversation.running} />`;
  }
}

/** Undone records: still stored, but no longer part of the conversation. */
function Undone({ items }) {
  return html`<section class="undone" aria-label=${_("Undone")}><p>${_("Undone: the agent no longer sees this.")}</p>${items}</section>`;
}

class Reply extends memo(DrawnReply) {
  shouldComponentUpdate(next) {
    if (next.record !== this.props.record) return true;
    const open = next.results.includes(null) && next.running !== this.props.running;
    return open || next.results.some((result, index) => result !== this.props.results[index]);
  }
}

function DrawnReply({ record, results, conversation, running, annotations }) {
  const { message, seq, at } = record;
  const { text = "", calls = [], reasoning = [], stop = "end" } = message;
  const thought = reasoning.map((part) => part.text ?? "").filter(Boolean).join("\n\n");
  return html`<article class="reply" data-seq=${seq} aria-label="Holdfast">
    ${thought && html`<${Reasoned} text=${thought} />`}
    ${text && html`<div class="prose"><${Markdown} text=${text} /></div>`}
    ${annotations && html`<${annotations.Reply} seq=${seq} stats=${annotations.stats} />`}
    ${calls.map((call, index) => html`<${Step} key=${call.id} call=${call} result=${results[index]} began=${at}
      live=${conversation.live} running=${running} ask=${(result) => conversation.fullOutput(result)} />`)}
    ${stop === "length" && html`<p class="remark">${_("The model stopped here: its answer reached the maximum length.")}</p>`}
    ${stop === "stopped" && html`<p class="remark">${_("You stopped this answer here.")}</p>`}
    ${stop === "filtered" && html`<p class="remark">${_("The provider's content filter ended this answer.")}</p>`}
  </article>`;
}

/** A result whose call is not loaded yet. */
function Orphan({ record, conversation }) {
  const { name, call_id } = record.message;
  const call = { id: call_id, name, arguments: "{}" };
  return html`<article class="reply" data-seq=${record.seq} aria-label="Holdfast">
    <${Step} call=${call} result=${record} began=${null} live=${null} running=${false} ask=${(result) => conversation.fullOutput(result)} />
  </article>`;
}
