// The accounts of platforms: whether each is connected and since when, and pairing requests.
import { api } from "../api.js";
import { _, _n } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "../view/use_fetched.js";
import { People } from "../view/pairing.js";
import { iso, lasted, moment } from "../view/times.js";

const EVERY = 10; // seconds; no event announces that a proof of connection gets old

const BACKLOG = {
  until_acked: _("Keeps messages until the gateway has accepted them."),
  history_since: _("Can be asked for missed messages."),
  none: _("Messages are lost while the gateway is down."),
};

export function View({ page }) {
  const { value, problem, refresh } = useFetched(page.changes, api.platforms, EVERY);
  return html`
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${!value && !problem && html`<p class="quiet-text">${_("Loading…")}</p>`}
    ${value && html`<ul class="accounts" aria-label=${_("Accounts")}>
      ${value.accounts.map((account) => html`<${Account} key=${`${account.name}:${account.account}`} account=${account} refresh=${refresh} />`)}
    </ul>`}
    ${value?.accounts.every((account) => account.built_in) && html`<p class="card">
      ${_("No chat platform is set up yet. Run {command} in a terminal; it asks for what it needs and tests the connection. The same works for discord, slack, matrix and others.", { command: html`<code>holdfast platforms add telegram</code>` })}
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
    <p class="facts"><span>${built_in ? _("Served by the gateway itself.") : proof(account)}</span></p>
    ${!built_in && html`<p class="facts"><span>${BACKLOG[backlog] ?? backlog}</span></p>`}
    ${!built_in && html`<${Acts} account=${account} title=${title} refresh=${refresh} />`}
  </li>`;
}

function accountStatus({ state, connected }) {
  if (state === "connected") return connected ? _("connected") : _("silent");
  return { blocked: _("refused"), retrying: _("not connected"), new: _("not tried yet"), closed: _("closing"), paused: _("paused") }[state] ?? state;
}

function proof({ last_ok_at, next_attempt_at, failures }) {
  const now = Date.now() / 1000;
  const ago = (at) => html`<time datetime=${iso(at)} title=${moment(at)}>${_("{time} ago", { time: lasted(Math.max(0, now - at)) })}</time>`;
  return html`${last_ok_at === null ? _("Has never answered.") : _("Last answered {time}.", { time: ago(last_ok_at) })}
    ${failures > 0 && ` ${_n("{n} failure in a row.", "{n} failures in a row.", failures)}`}
    ${next_attempt_at !== null && ` ${_("Next attempt in {time}.", { time: lasted(Math.max(0, next_attempt_at - now)) })}`}`;
}

const ACTS = {
  check: { label: _("Check"), busy: _("Checking…"), of: (account) => _("Check {account}", { account }) },
  resume: { label: _("Resume"), busy: _("Resuming…"), of: (account) => _("Resume {account}", { account }) },
  pause: { label: _("Pause"), busy: _("Pausing…"), of: (account) => _("Pause {account}", { account }) },
};

/** What a person who asked for a check or a connection wants to know; `error` of the account is above it. */
function resultOf({ connected }) {
  const values = { time: moment(Date.now() / 1000) };
  return connected
    ? { text: _("Checked {time}: it is connected and answers.", values), failed: false }
    : { text: _("Checked {time}: it is not connected.", values), failed: true };
}

function Acts({ account, title, refresh }) {
  const [acting, setActing] = useState("");
  const [result, setResult] = useState({ text: "", failed: false });
  const act = async (verb) => {
    setActing(verb);
    setResult({ text: "", failed: false });
    try {
      const found = await api.account(account.name, account.account, verb);
      setResult(verb === "pause" ? { text: "", failed: false } : resultOf(found));
    } catch (failure) {
      setResult({ text: failure.message, failed: true });
    }
    setActing("");
    await refresh();
  };
  const button = (verb, { label, busy, of }) => html`<button type="button" class="quiet outlined" disabled=${acting !== ""} aria-label=${of(title)}
    onClick=${() => act(verb)}>${acting === verb ? busy : label}</button>`;
  const paused = account.state === "paused";
  return html`
    <p class=${result.failed ? "problem act-result" : "act-result"} role="status">${result.text}</p>
    <p class="actions" data-changes>
      ${!paused && button("check", ACTS.check)}
      ${paused || account.state === "blocked" || account.state === "retrying" ? button("resume", ACTS.resume) : null}
      ${!paused && button("pause", ACTS.pause)}
    </p>`;
}
