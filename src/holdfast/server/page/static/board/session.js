// A session: what was said and done in it, what that took, and what can be done to it.
import { useObservable } from "../observable.js";
import { html, useEffect, useMemo } from "../vendor/preact-htm.module.js";
import { Approvals } from "../view/approvals.js";
import { Composer } from "../view/composer.js";
import { Transcript } from "../view/transcript.js";
import { StatsLoader } from "./stats_loader.js";
import { SessionHead } from "./session_head.js";
import { Reply, Turn } from "./transcript_stats.js";

export function Opened({ page }) {
  const { conversation } = page;
  return conversation && html`<${Session} key=${conversation.id} page=${page} conversation=${conversation} />`;
}

function Session({ page, conversation }) {
  useObservable(conversation, conversation.live);
  const beside = useFigures(conversation);
  const { problem, session } = conversation;
  if (problem && !problem.temporary) {
    return html`<div class="missing" role="alert">
      <h2>This session cannot be opened</h2><p>${problem.unopened}</p><p><a href="#/sessions">All sessions</a></p>
    </div>`;
  }
  return html`
    ${session && html`<${SessionHead} page=${page} conversation=${conversation} session=${session} />`}
    <${Transcript} conversation=${conversation} seek=${page.seek} beside=${beside} />
    <${Approvals} conversation=${conversation} />
    ${session && html`<${Speaking} page=${page} conversation=${conversation} session=${session} />`}
  `;
}

/** What is drawn beside the transcript. A turn that ended without another record is looked at once more. */
function useFigures(conversation) {
  const beside = useMemo(() => ({ figures: new StatsLoader(conversation.id), Reply, Turn }), [conversation]);
  useEffect(() => () => beside.figures.close(), [beside]);
  useEffect(() => {
    const last = conversation.records.at(-1);
    if (!conversation.running && last?.turn_id) beside.figures.want(last.seq, last.turn_id);
  }, [beside, conversation.running]);
  return beside;
}

function Speaking({ page, conversation, session }) {
  const closed = page.viewer ? "You see everything here as a viewer, and change nothing." : whyClosed(session);
  if (closed) return html`<div class="closed"><p>${closed}</p></div>`;
  const hint = OURS.includes(session.platform) ? "" : `You speak as the operator; ${session.platform} gets the answer`;
  return html`<${Composer} page=${page} place=${conversation.id} running=${conversation.running} hint=${hint} calm
    onSend=${(message) => page.send(message)} onStop=${() => page.stop()} />`;
}

const OURS = ["web", "api"]; // platforms on which whoever runs the gateway is one who speaks
const INTERNAL = "internal"; // where agents work for other agents, and jobs

function whyClosed({ current, suspended, platform }) {
  if (platform === INTERNAL) return "An agent works here for another, or for a job: speak to that one.";
  if (current) return "";
  if (suspended) return "It is suspended: what is said in its chat begins another. Resume it to speak into it.";
  return "Its chat has gone on to another session. Resume this one to speak into it.";
}
