// The conversation: committed records, the live step, waiting messages, and the scroll position.
import { useObservable } from "../observable.js";
import { _ } from "../translation.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact-htm.module.js";
import { Chunk, chunks } from "./chunks.js";
import { Icon, Spinner } from "./icons.js";
import { Live } from "./live.js";
import { Workspace } from "./markdown.js";
import { Answer, Waiting } from "./messages.js";

const NEAR = 80; // pixels from the end that still count as being at the end
const AHEAD = 1500; // pixels before the beginning at which older records are requested

/** `annotations`: {Reply, Turn, stats}, drawn with each reply and after each turn; null: none. */
export function Transcript({ conversation, seek, annotations = null }) {
  useObservable(conversation);
  const scroller = useRef(null);
  const follow = useFollowing(scroller, conversation);
  useSought(scroller, conversation, seek, follow);
  const early = conversation.answers.filter(({ after }) => after === 0);
  return html`<${Workspace.Provider} value=${conversation.id}><div class="transcript">
    <div class="scroller" ref=${scroller} tabindex="0" role="region" aria-label=${_("Conversation")} onScroll=${follow.onScroll}>
      <div class="column" ref=${follow.content} onClick=${follow.onClick}>
        ${conversation.more && html`<p class="older"><${Spinner} /> ${_("Loading older messages…")}</p>`}
        ${early.map((answer) => html`<${Answer} key=${`answer-${answer.id}`} answer=${answer} />`)}
        ${chunks(conversation).map((chunk) => html`<${Chunk} key=${chunk.index} chunk=${chunk} conversation=${conversation} annotations=${annotations} />`)}
        <${Live} conversation=${conversation} />
        <${WaitingMessages} conversation=${conversation} outbox=${conversation.outbox} onSent=${follow.toEnd} />
      </div>
    </div>
    ${follow.away && html`<button type="button" class="to-end" onClick=${follow.toEnd}>
      <${Icon} name="down" /> ${_("Latest")}
    </button>`}
  </div><//>`;
}

/** At the end, the view follows the end; once scrolled away, it keeps its position. */
function useFollowing(scroller, conversation) {
  const content = useRef(null);
  const atEnd = useRef(true);
  const top = useRef(0); // the last known scroll position
  const [away, setAway] = useState(false);
  const toEnd = () => {
    atEnd.current = true;
    scroller.current.scrollTop = scroller.current.scrollHeight;
    top.current = scroller.current.scrollTop;
    setAway(false);
  };
  // A scroll event is late: content that was added below since does not mean that the user scrolled. Only
  // scrolling up leaves the end.
  const onScroll = () => {
    if (!scroller.current) return; // the event of a list that is gone already
    const { scrollTop, scrollHeight, clientHeight } = scroller.current;
    const near = scrollHeight - scrollTop - clientHeight < NEAR;
    atEnd.current = near || (atEnd.current && scrollTop >= top.current);
    top.current = scrollTop;
    setAway(!atEnd.current);
    if (scrollTop < AHEAD) conversation.older();
  };
  // An unfolded step should be read, not scroll away.
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
  useScrollAnchor(scroller, conversation);
  return { content, away, toEnd, onScroll, onClick, leave: () => (atEnd.current = false) };
}

/** The visible records keep their position when older ones are added before them. Browsers do that
 * in part, some not at all; the rest is corrected here. */
function useScrollAnchor(scroller, conversation) {
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

/** Scrolls to the record that a search found. */
function useSought(scroller, conversation, seek, follow) {
  useEffect(() => {
    if (!seek || conversation.loading) return;
    follow.leave();
    conversation.reach(seek).then(() => {
      requestAnimationFrame(() => {
        const found = scroller.current?.querySelector(`[data-seq="${Number(seek)}"]`);
        found?.scrollIntoView({ block: "center" });
        found?.classList.add("search-target");
      });
    });
  }, [conversation, conversation.loading, seek]);
}

/** Sending a message scrolls to the end. */
function WaitingMessages({ conversation, outbox, onSent }) {
  useObservable(outbox, conversation.live);
  const newest = outbox.of(conversation.id).at(-1)?.message_id;
  useEffect(() => {
    if (newest) onSent();
  }, [newest]);
  // By the id of the page: the stream may have a message before its request is answered.
  const ours = new Set(outbox.of(conversation.id).map((entry) => entry.message_id));
  const queued = (conversation.live.step?.queued ?? []).filter((each) => !ours.has(each.message_id));
  return html`
    ${queued.map(({ id, text }) => html`<${Waiting} key=${`q${id}`} entry=${{ text, state: "accepted" }} session=${conversation.id} busy />`)}
    ${outbox.of(conversation.id).map((entry) => html`<${Waiting}
      key=${entry.message_id} entry=${entry} session=${conversation.id} busy=${conversation.live.running}
      onRetry=${() => outbox.retry(entry.message_id)} onDrop=${() => outbox.drop(entry.message_id)}
    />`)}
  `;
}
