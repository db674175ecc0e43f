// The accounts of platforms: whether each is connected and since when, and pairing requests.
import { api } from "../api.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { People } from "../view/pairing.js";
import { iso, lasted, moment } from "../view/times.js";

const EVERY = 10; // seconds; no event announces that a proof of connection gets old

const BACKLOG = {
  until_acked: "keeps messages until they are taken",
  history_since: "is asked for what was missed",
  none: "keeps nothing while the gateway is away",
};

export function View({ page }) {
  const { value, problem, refresh } = useFetched(page.changes, api.platforms, EVERY);
  return html`
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">Loading…</p>`}
    ${value && html`<ul class="accounts" aria-label="Accounts">
      ${value.accounts.map((account) => html`<${Account} key=${`${account.name}:${account.account}`} account=${account} refresh=${refresh} />`)}
    </ul>`}
    ${value?.accounts.every((account) => account.built_in) && html`<p class="card">
      No chat platform is set up yet. <code>holdfast platforms add telegram</code> in a terminal asks what it needs to know and tries it;
      so for discord, slack, matrix and others.
    </p>`}
    <div class="card people"><${People} page=${page} conversation=${page.changes} /></div>`;
}

function Account({ account, refresh }) {
  const { name, connected, built_in, error, remedy, backlog } = account;
  const title = account.account === "default" ? name : `${name}:${account.account}`;
  return html`<li class="card">
    <header class="between">
      <h2>${title}</h2>
      <span class=${`badge ${connected ? "good" : account.state}`}>${accountStatus(account)}</span>
    </header>
    ${error && html`<p class="problem">${error}</p>`}
    ${remedy && html`<p>${remedy}</p>`}
    <p class="facts"><span>${built_in ? "served by the gateway itself" : proof(account)}</span></p>
    ${!built_in && html`<p class="facts"><span>${BACKLOG[backlog] ?? backlog}</span></p>`}
    ${!built_in && html`<${Acts} account=${account} title=${title} refresh=${refresh} />`}
  </li>`;
}

function accountStatus({ state, connected }) {
  if (state === "connected") return connected ? "connected" : "silent";
  return { blocked: "refused", retrying: "not connected", new: "not tried yet", closed: "closing" }[state] ?? state;
}

function proof({ last_ok_at, next_attempt_at, failures }) {
  const now = Date.now() / 1000;
  const ago = (at) => html`<time datetime=${iso(at)} title=${moment(at)}>${lasted(Math.max(0, now - at))} ago</time>`;
  return html`${last_ok_at === null ? "has never answered" : html`last answered ${ago(last_ok_at)}`}
    ${failures > 0 && `; ${failures} failures in a row`}
    ${next_attempt_at !== null && `; tried again in ${lasted(Math.max(0, next_attempt_at - now))}`}`;
}

function Acts({ account, title, refresh }) {
  const [acting, setActing] = useState("");
  const [problem, setProblem] = useState("");
  const act = async (verb) => {
    setActing(verb);
    try {
      await api.account(account.name, account.account, verb);
      setProblem("");
    } catch (failure) {
      setProblem(failure.message);
    }
    setActing("");
    await refresh();
  };
  const button = (verb, label) => html`<button type="button" class="quiet outlined" disabled=${acting !== ""} aria-label=${`${label} ${title}`}
    onClick=${() => act(verb)}>${acting === verb ? `${label}…` : label}</button>`;
  const paused = account.state === "paused";
  return html`
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <p class="actions" data-changes>
      ${!paused && button("check", "Check")}
      ${paused || account.state === "blocked" || account.state === "retrying" ? button("resume", "Resume") : null}
      ${!paused && button("pause", "Pause")}
    </p>`;
}
