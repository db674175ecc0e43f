// The conversation: what is committed, what is live and what is on its way, and where one reads.
import { useObservable } from "../observable.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Chunk, chunks } from "./chunks.js";
import { Icon, Spinner } from "./icons.js";
import { Live } from "./live.js";
import { Answer, Waiting } from "./messages.js";

const NEAR = 80; // pixels from the end that still count as being at the end
const AHEAD = 1500; // pixels before the beginning at which older records are asked for

/** `beside`: {Reply, Turn, figures}, what is drawn beside each reply and behind each turn; null: nothing. */
export function Transcript({ conversation, seek, beside = null }) {
  useObservable(conversation);
  const scroller = useRef(null);
  const follow = useFollowing(scroller, conversation);
  useSought(scroller, conversation, seek, follow);
  const early = conversation.answers.filter(({ after }) => after === 0);
  return html`<div class="transcript">
    <div class="scroller" ref=${scroller} tabindex="0" role="region" aria-label="Conversation" onScroll=${follow.onScroll}>
      <div class="column" ref=${follow.content} onClick=${follow.onClick}>
        ${conversation.more && html`<p class="older"><${Spinner} /> Loading what came before…</p>`}
        ${early.map((answer) => html`<${Answer} key=${`answer-${answer.id}`} answer=${answer} />`)}
        ${chunks(conversation).map((chunk) => html`<${Chunk} key=${chunk.place} chunk=${chunk} conversation=${conversation} beside=${beside} />`)}
        <${Live} conversation=${conversation} />
        <${OnItsWay} conversation=${conversation} outbox=${conversation.outbox} onSaid=${follow.toEnd} />
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
  const top = useRef(0); // where the view was when it was last looked at
  const [away, setAway] = useState(false);
  const toEnd = () => {
    atEnd.current = true;
    scroller.current.scrollTop = scroller.current.scrollHeight;
    top.current = scroller.current.scrollTop;
    setAway(false);
  };
  // An event tells of a scroll that is over; what came below since is no reason to stay behind. Only who
  // went up has left the end.
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = scroller.current;
    const near = scrollHeight - scrollTop - clientHeight < NEAR;
    atEnd.current = near || (atEnd.current && scrollTop >= top.current);
    top.current = scrollTop;
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
      if (atEnd.current) toEnd();
      else onScroll();
    });
    grown.observe(content.current);
    grown.observe(scroller.current);
    return () => grown.disconnect();
  }, [conversation]);
  useKeptPlace(scroller, conversation);
  return { content, away, toEnd, onScroll, onClick, leave: () => (atEnd.current = false) };
}

/** What one reads stays where it is when older records are put before it. Browsers see to that
 * in part, some not at all; what they leave is made good here. */
function useKeptPlace(scroller, conversation) {
  const first = conversation.records[0]?.seq;
  const drawn = useRef(first);
  const kept = drawn.current !== first && scroller.current ? firstSeen(scroller.current) : null;
  useLayoutEffect(() => {
    drawn.current = first;
    if (!kept?.node.isConnected) return;
    const moved = kept.node.getBoundingClientRect().top - kept.top;
    if (moved) scroller.current.scrollTop += moved;
  }, [first]);
}

function firstSeen(scroller) {
  const edge = scroller.getBoundingClientRect().top;
  for (const node of scroller.querySelectorAll("[data-seq]")) {
    const { top, bottom } = node.getBoundingClientRect();
    if (bottom > edge) return { node, top };
  }
  return null;
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

/** Who says something wants to see what comes of it, wherever they were reading. */
function OnItsWay({ conversation, outbox, onSaid }) {
  useObservable(outbox, conversation.live);
  const newest = outbox.of(conversation.id).at(-1)?.message_id;
  useEffect(() => {
    if (newest) onSaid();
  }, [newest]);
  // By the id we gave it: the stream may tell of a message before its own request is answered.
  const ours = new Set(outbox.of(conversation.id).map((entry) => entry.message_id));
  const queued = (conversation.live.step?.queued ?? []).filter((each) => !ours.has(each.message_id));
  return html`
    ${queued.map(({ id, text }) => html`<${Waiting} key=${`q${id}`} entry=${{ text, state: "accepted" }} busy />`)}
    ${outbox.of(conversation.id).map((entry) => html`<${Waiting}
      key=${entry.message_id} entry=${entry} busy=${conversation.live.running}
      onRetry=${() => outbox.retry(entry.message_id)} onDrop=${() => outbox.drop(entry.message_id)}
    />`)}
  `;
}
