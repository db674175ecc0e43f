// The committed records, in chunks: one that did not change is not even looked into.
import { CHUNK } from "../conversation.js";
import { html } from "../vendor/preact-htm.module.js";
import { Markdown } from "./markdown.js";
import { memo } from "./memo.js";
import { Answer, Compacted, Note, Said, TurnEnd } from "./messages.js";
import { Reasoned } from "./reasoning.js";
import { Step } from "./step.js";

const HEIGHT = 44; // pixels that a record has on average, for chunks that are out of sight

/** Chunks of {place, records, results, called, answers, next, signature}. */
export function chunks(conversation) {
  const { records, answers, turns, running, base } = conversation;
  // By seq: what is loaded before them moves no record to another chunk.
  const placeOf = (seq) => Math.floor((seq - base) / CHUNK);
  const results = new Map();
  const called = new Set();
  for (const record of records) {
    if (record.message.type === "tool") results.set(record.message.call_id, record);
    for (const call of record.message.calls ?? []) called.add(call.id);
  }
  const found = [];
  for (const record of records) {
    const place = placeOf(record.seq);
    if (found.at(-1)?.place !== place) found.push({ place, records: [], results, called, answers: [], next: null });
    found.at(-1).records.push(record);
  }
  for (const answer of answers) {
    found.find(({ place }) => place === placeOf(answer.after))?.answers.push(answer);
  }
  found.forEach((chunk, place) => {
    chunk.next = found[place + 1]?.records[0].turn_id ?? null;
    chunk.signature = signature(chunk, turns, running);
  });
  return found;
}

/** Everything about a chunk that can change how it is drawn. */
function signature({ records, results, called, answers, next }, turns, running) {
  let [ended, open, orphans, undone] = [0, 0, 0, 0];
  const states = [];
  let turn = null;
  for (const { message, turn_id, undone: back } of records) {
    if (back) undone += 1;
    for (const call of message.calls ?? []) results.has(call.id) ? (ended += 1) : (open += 1);
    if (message.type === "tool" && !called.has(message.call_id)) orphans += 1;
    if (turn_id !== turn) states.push(turns.get((turn = turn_id))?.state);
  }
  const ends = [records[0].seq, records.at(-1).seq, ended, open, orphans, undone, answers.length, next];
  return [...ends, ...states, open ? running : ""].join();
}

export class Chunk extends memo(DrawnChunk) {
  shouldComponentUpdate(next) {
    return next.chunk.signature !== this.props.chunk.signature || next.conversation !== this.props.conversation;
  }
}

function DrawnChunk({ chunk, conversation, beside }) {
  const { records, answers, next } = chunk;
  const items = [];
  let back = null; // the group of those that were taken back together
  records.forEach((record, place) => {
    const { turn_id, seq, undone } = record;
    const drawn = draw(record, chunk, conversation, beside);
    if (!undone) back = null;
    else if (!back) items.push(html`<${TakenBack} key=${`back-${seq}`} items=${(back = [])} />`);
    if (drawn) (back ?? items).push(drawn);
    const following = place + 1 < records.length ? records[place + 1].turn_id : next;
    const turn = turn_id && following !== turn_id && conversation.turns.get(turn_id);
    if (turn) (back ?? items).push(html`<${TurnEnd} key=${`end-${seq}`} state=${turn.state} reason=${turn.reason} />`);
    if (beside && turn_id && following !== turn_id) {
      (back ?? items).push(html`<${beside.Turn} key=${`turn-${turn_id}`} id=${turn_id} seq=${seq} figures=${beside.figures} />`);
    }
    for (const answer of answers) {
      if (answer.after !== seq) continue;
      items.push(html`<${Answer} key=${`answer-${answer.id}`} answer=${answer} />`);
      back = null; // it was said later than these, and so it stands below them
    }
  });
  const style = { containIntrinsicSize: `auto ${records.length * HEIGHT}px` };
  return html`<div class="chunk" style=${style}>${items}</div>`;
}

function draw(record, { results, called }, conversation, beside) {
  const { message, seq } = record;
  switch (message.type) {
    case "user":
      return html`<${Said} key=${seq} record=${record} />`;
    case "note":
      return html`<${Note} key=${seq} seq=${seq} text=${message.text} />`;
    case "compaction":
      return html`<${Compacted} key=${seq} seq=${seq} text=${message.text} />`;
    case "tool":
      return called.has(message.call_id) ? null : html`<${Orphan} key=${seq} record=${record} conversation=${conversation} />`;
    default:
      return html`<${Reply} key=${seq} record=${record} conversation=${conversation} beside=${beside}
        results=${(message.calls ?? []).map((call) => results.get(call.id) ?? null)} running=${conversation.running} />`;
  }
}

/** Kept, and no part of the conversation any more: there for whoever wonders. */
function TakenBack({ items }) {
  return html`<section class="taken-back" aria-label="Taken back"><p>Taken back; the agent does not know of it.</p>${items}</section>`;
}

class Reply extends memo(DrawnReply) {
  shouldComponentUpdate(next) {
    if (next.record !== this.props.record) return true;
    const open = next.results.includes(null) && next.running !== this.props.running;
    return open || next.results.some((result, place) => result !== this.props.results[place]);
  }
}

function DrawnReply({ record, results, conversation, running, beside }) {
  const { message, seq, at } = record;
  const { text = "", calls = [], reasoning = [], stop = "end" } = message;
  const thought = reasoning.map((part) => part.text ?? "").filter(Boolean).join("\n\n");
  return html`<article class="reply" data-seq=${seq} aria-label="Holdfast">
    ${thought && html`<${Reasoned} text=${thought} />`}
    ${text && html`<div class="prose"><${Markdown} text=${text} /></div>`}
    ${beside && html`<${beside.Reply} seq=${seq} figures=${beside.figures} />`}
    ${calls.map((call, place) => html`<${Step} key=${call.id} call=${call} result=${results[place]} began=${at}
      live=${conversation.live} running=${running} ask=${(result) => conversation.fullOutput(result)} />`)}
    ${stop === "length" && html`<p class="aside">The model stopped here: its answer was too long.</p>`}
    ${stop === "filtered" && html`<p class="aside">The provider's filter ended this answer.</p>`}
  </article>`;
}

/** A result whose call is further up than what is loaded. */
function Orphan({ record, conversation }) {
  const { name, call_id } = record.message;
  const call = { id: call_id, name, arguments: "{}" };
  return html`<article class="reply" data-seq=${record.seq} aria-label="Holdfast">
    <${Step} call=${call} result=${record} began=${null} live=${null} running=${false} ask=${(result) => conversation.fullOutput(result)} />
  </article>`;
}
