// Pairing: requests, the form for a pairing code, and paired users.
import { api } from "../api.js";
import { _ } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { useFetched } from "./use_fetched.js";
import { Icon } from "./icons.js";
import { iso, lasted, moment, when } from "./times.js";

const EVERY = 10; // seconds; no event announces a pairing request

export function People({ page, conversation }) {
  const { value, problem, refresh } = useFetched(conversation, api.pairing, EVERY);
  if (problem) return html`<p class="problem" role="alert">${problem}</p>`;
  if (!value) return html`<p class="quiet-text">${_("Loading…")}</p>`;
  const { requests, users, locked_until } = value;
  return html`
    <section class="notebook" aria-label=${_("Pairing requests")}>
      <header><h2>${_("Pairing requests")}</h2></header>
      ${requests.length > 0 && html`<${Code} locked=${locked_until} refresh=${refresh} />`}
      ${!requests.length && html`<p class="quiet-text">${_("None. A person who is not allowed and writes to a bot in private gets a code.")}</p>`}
      <ul class="notes">${requests.map((each) => html`<${Request} key=${each.principal} request=${each} refresh=${refresh} />`)}</ul>
    </section>
    <section class="notebook" aria-label=${_("Paired users")}>
      ${users.length > 0 && html`<header><h2>${_("Paired users")}</h2></header>`}
      <ul class="notes">${users.map((each) => html`<${Person} key=${each.principal} page=${page} person=${each} refresh=${refresh} />`)}</ul>
    </section>`;
}

/** One field for all requests: the code identifies the request, a display name does not. */
function Code({ locked, refresh }) {
  const [problem, setProblem] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const field = event.target.elements.code;
    if (!field.value.trim()) return;
    try {
      await api.approvePairing(field.value.trim());
      field.value = "";
      setProblem("");
    } catch (failure) {
      setProblem(failure.message);
    }
    await refresh();
  };
  return html`<form class="note-field" data-changes onSubmit=${submit}>
      <input name="code" aria-label=${_("The code they tell you")} placeholder=${_("The code they tell you")} maxlength="40" autocomplete="off" spellcheck=${false} />
      <button type="submit" class="quiet">${_("Approve")}</button>
    </form>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${locked && !problem && html`<p class="quiet-text">${_("Codes are refused until {time}: too many wrong ones were tried.", { time: when(locked) })}</p>`}`;
}

function Request({ request: { principal, user_name, asked_at, expires_at }, refresh }) {
  const deny = () => api.deny(principal).then(refresh, refresh);
  return html`<li>
    <p>${user_name && html`<strong>${user_name}</strong> `}${principal}</p>
    <p class="facts">
      <span>${_("asked {time}, {left} left", { time: html`<time datetime=${iso(asked_at)} title=${moment(asked_at)}>${when(asked_at)}</time>`, left: lasted(expires_at - Date.now() / 1000) })}</span>
      <button type="button" class="link" data-changes aria-label=${_("Deny {person}", { person: principal })} onClick=${deny}>${_("Deny")}</button>
    </p>
  </li>`;
}

function Person({ page, person, refresh }) {
  const { principal, user_name, since } = person;
  const act = () => api.revokePairing(principal).then(refresh);
  return html`<li>
    <p>${user_name && html`<strong>${user_name}</strong> `}${principal}</p>
    <p class="facts">
      <span>${_("since {time}", { time: html`<time datetime=${iso(since)} title=${moment(since)}>${when(since)}</time>` })}</span>
      <button type="button" class="round" data-changes aria-label=${_("Revoke access of {person}", { person: principal })}
        onClick=${() => page.set({ dialog: { kind: "revoke", person, act } })}><${Icon} name="trash" /></button>
    </p>
  </li>`;
}
