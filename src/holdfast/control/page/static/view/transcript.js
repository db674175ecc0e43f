// The conversation: what is committed, what is live, and what is on its way, in that order.
import { useObserved } from "../observed.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Icon, Spinner } from "./icons.js";
import { Live } from "./live.js";
import { Markdown } from "./markdown.js";
import { memo } from "./memo.js";
import { Answer, Note, Said, TurnEnd, Waiting } from "./messages.js";
import { Reasoned } from "./reasoning.js";
import { Step } from "./step.js";

const NEAR = 80; // pixels from the end that still count as being at the end
const AHEAD = 1500; // pixels before the beginning at which older records are asked for

export function Transcript({ conversation, seek }) {
  useObserved(conversation);
  const scroller = useRef(null);
  const follow = useFollowing(scroller, conversation);
  useSought(scroller, conversation, seek, follow);
  const items = gather(conversation);
  return html`<div class="transcript">
    <div class="scroller" ref=${scroller} tabindex="0" role="region" aria-label="Conversation" onScroll=${follow.onScroll}>
      <div class="column" ref=${follow.content} onClick=${follow.onClick}>
        ${conversation.more && html`<p class="older"><${Spinner} /> Loading what came before…</p>`}
        ${items}
        <${Live} conversation=${conversation} />
        <${OnItsWay} conversation=${conversation} outbox=${conversation.outbox} />
      </div>
    </div>
    ${follow.away && html`<button type="button" class="to-end" onClick=${follow.toEnd}>
      <${Icon} name="down" /> Latest
    </button>`}
  </div>`;
}

/** At the end, the view stays at the end whatever grows; once scrolled away, it stays put. */
function useFollowing(scroller, conversation) {
  const content = useRef(null);
  const atEnd = useRef(true);
  const [away, setAway] = useState(false);
  const toEnd = () => {
    atEnd.current = true;
    scroller.current.scrollTop = scroller.current.scrollHeight;
    setAway(false);
  };
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = scroller.current;
    atEnd.current = scrollHeight - scrollTop - clientHeight < NEAR;
    setAway(!atEnd.current);
    if (scrollTop < AHEAD) conversation.older();
  };
  // Who unfolds a step wants to read it, not to see it scroll away.
  const onClick = (event) => {
    if (event.target.closest("summary")) atEnd.current = false;
  };
  useLayoutEffect(() => {
    atEnd.current = true;
    const grown = new ResizeObserver(() => {
      if (atEnd.current) scroller.current.scrollTop = scroller.current.scrollHeight;
      else onScroll();
    });
    grown.observe(content.current);
    grown.observe(scroller.current);
    return () => grown.disconnect();
  }, [conversation]);
  useKeptPlace(scroller, conversation);
  return { content, away, toEnd, onScroll, onClick, leave: () => (atEnd.current = false) };
}

/** Browsers hold the place when something is put before it, but not at the very top, and some
 * not at all. */
function useKeptPlace(scroller, conversation) {
  const before = useRef(null);
  const first = conversation.records[0]?.seq;
  const node = scroller.current;
  if (node && before.current?.first !== first) {
    before.current = { ...before.current, height: node.scrollHeight, top: node.scrollTop };
  }
  useLayoutEffect(() => {
    const was = before.current;
    before.current = { first };
    if (was?.first === undefined || !(first < was.first)) return;
    if (was.top > 0 && CSS.supports("overflow-anchor", "auto")) return;
    scroller.current.scrollTop = was.top + scroller.current.scrollHeight - was.height;
  }, [first]);
}

/** Opens at the place that a search found. */
function useSought(scroller, conversation, seek, follow) {
  useEffect(() => {
    if (!seek || conversation.loading) return;
    follow.leave();
    conversation.reach(seek).then(() => {
      requestAnimationFrame(() => {
        const found = scroller.current?.querySelector(`[data-seq="${Number(seek)}"]`);
        found?.scrollIntoView({ block: "center" });
        found?.classList.add("sought");
      });
    });
  }, [conversation, conversation.loading, seek]);
}

/** Records in the order of their seq; a result stands with its call, wherever that is. */
function gather(conversation) {
  const { records, answers, turns } = conversation;
  const results = new Map();
  const called = new Set();
  for (const record of records) {
    if (record.message.type === "tool") results.set(record.message.call_id, record);
    for (const call of record.message.calls ?? []) called.add(call.id);
  }
  const items = [];
  records.forEach((record, place) => {
    const drawn = draw(record, conversation, results, called);
    if (drawn) items.push(drawn);
    const { turn_id } = record;
    if (turn_id && records[place + 1]?.turn_id !== turn_id) {
      const turn = turns.get(turn_id);
      if (turn) items.push(html`<${TurnEnd} key=${`end-${turn_id}-${record.seq}`} state=${turn.state} reason=${turn.reason} />`);
    }
    for (const answer of answers) {
      if (answer.after === record.seq) items.push(html`<${Answer} key=${`answer-${answer.id}`} answer=${answer} />`);
    }
  });
  const early = answers.filter(({ after }) => after === 0);
  return [...early.map((answer) => html`<${Answer} key=${`answer-${answer.id}`} answer=${answer} />`), ...items];
}

function draw(record, conversation, results, called) {
  const { message, seq } = record;
  switch (message.type) {
    case "user":
      return html`<${Said} key=${seq} record=${record} />`;
    case "note":
      return html`<${Note} key=${seq} seq=${seq} text=${message.text} />`;
    case "tool":
      return called.has(message.call_id) ? null : html`<${Orphan} key=${seq} record=${record} />`;
    default:
      return html`<${Reply} key=${seq} record=${record} conversation=${conversation}
        results=${resultsOf(message, results)} running=${conversation.running} />`;
  }
}

function resultsOf({ calls = [] }, results) {
  return calls.map((call) => results.get(call.id) ?? null);
}

class Reply extends memo(DrawnReply) {
  shouldComponentUpdate(next) {
    if (next.record !== this.props.record) return true;
    const open = next.results.includes(null) && next.running !== this.props.running;
    return open || next.results.some((result, place) => result !== this.props.results[place]);
  }
}

function DrawnReply({ record, results, conversation, running }) {
  const { message, seq, at } = record;
  const { text = "", calls = [], reasoning = [], stop = "end" } = message;
  const thought = reasoning.map((part) => part.text ?? "").filter(Boolean).join("\n\n");
  return html`<article class="reply" data-seq=${seq} aria-label="Holdfast">
    ${thought && html`<${Reasoned} text=${thought} />`}
    ${text && html`<div class="prose"><${Markdown} text=${text} /></div>`}
    ${calls.map((call, place) => html`<${Step} key=${call.id} call=${call} result=${results[place]} began=${at}
      live=${conversation.live} running=${running} />`)}
    ${stop === "length" && html`<p class="aside">The model stopped here: its answer was too long.</p>`}
    ${stop === "filtered" && html`<p class="aside">The provider's filter ended this answer.</p>`}
  </article>`;
}

/** A result whose call is further up than what is loaded. */
function Orphan({ record }) {
  const { name, call_id } = record.message;
  const call = { id: call_id, name, arguments: "{}" };
  return html`<article class="reply" data-seq=${record.seq} aria-label="Holdfast">
    <${Step} call=${call} result=${record} began=${null} live=${null} running=${false} />
  </article>`;
}

function OnItsWay({ conversation, outbox }) {
  useObserved(outbox, conversation.live);
  const accepted = new Set(outbox.of(conversation.id).map((entry) => entry.id));
  const queued = (conversation.live.step?.queued ?? []).filter(({ id }) => !accepted.has(id));
  return html`
    ${queued.map(({ id, text }) => html`<${Waiting} key=${`q${id}`} entry=${{ text, state: "accepted" }} busy />`)}
    ${outbox.of(conversation.id).map((entry) => html`<${Waiting}
      key=${entry.message_id} entry=${entry} busy=${conversation.live.step !== null}
      onRetry=${() => outbox.retry(entry.message_id)} onDrop=${() => outbox.drop(entry.message_id)}
    />`)}
  `;
}
