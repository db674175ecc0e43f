// The tokens of the API: a list in which they are created and revoked.
import { api } from "../api.js";
import { _, _n } from "../translation.js";
import { html, useState } from "../vendor/preact-htm.module.js";
import { Icon } from "../view/icons.js";
import { useFetched } from "../view/use_fetched.js";
import { Moment } from "./moment.js";
import { Rows } from "./rows.js";

const EVERY = 60; // seconds; nothing announces that a token was used
const DAYS = [30, 90, 365];
const SCOPES = {
  talk: _("talk: in sessions of its own"),
  sessions: _("sessions: in the named sessions"),
  read: _("read: sees everything, changes nothing"),
  admin: _("admin: everything"),
};

export function Tokens({ page }) {
  const { value, problem, refresh } = useFetched(page.changes, api.tokens, EVERY);
  const [adding, setAdding] = useState(false);
  const [created, setCreated] = useState(null);
  const create = async (asked) => {
    setCreated(await api.createToken(asked));
    setAdding(false);
    await refresh();
  };
  return html`<section class="card flush" aria-labelledby="tokens">
    <h2 id="tokens">${_("Tokens")}</h2>
    <p class="quiet-text">${_("Each program gets a token of its own, with what it needs and no more. A token is stored as a digest, so it is shown only once.")}</p>
    ${problem && page.connected && html`<p class="problem" role="alert">${problem}</p>`}
    ${created && html`<p class="notice" role="status">${_("The token {name}, shown only now:", { name: created.name })} <code>${created.token}</code></p>`}
    ${value && value.tokens.length > 0 && html`<${Rows} label=${_("Tokens")} columns=${columnsOf(page, refresh)} rows=${value.tokens} keyOf=${({ name }) => name} />`}
    ${adding ? html`<${NewToken} create=${create} onClose=${() => setAdding(false)} />`
    : html`<p class="actions pages" data-changes><button type="button" class="quiet outlined" onClick=${() => { setCreated(null); setAdding(true); }}><${Icon} name="plus" /> ${_("Create a token")}</button></p>`}
  </section>`;
}

const columnsOf = (page, refresh) => [
  { name: "name", label: _("Name"), tone: "words", of: ({ name }) => html`<code>${name}</code>` },
  { name: "scope", label: _("Scope"), of: ({ scope, sessions }) => html`${scope}${sessions.length > 0 && html`<small>${sessions.join(", ")}</small>`}` },
  { name: "since", label: _("Since"), of: ({ made_at }) => html`<${Moment} at=${made_at} />` },
  { name: "expires", label: _("Expires"), of: ({ expires_at }) => (expires_at === null ? _("never") : html`<${Moment} at=${expires_at} />`) },
  { name: "used", label: _("Last used"), of: ({ last_used_at }) => (last_used_at === null ? _("never") : html`<${Moment} at=${last_used_at} />`) },
  { name: "act", label: "", of: ({ name }) => html`<button type="button" class="quiet outlined" data-changes aria-label=${_("Revoke the token {name}", { name })} onClick=${() => revoke(page, name, refresh)}>${_("Revoke")}</button>` },
];

function NewToken({ create, onClose }) {
  const [scope, setScope] = useState("talk");
  const [problem, setProblem] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const { name, sessions, days } = event.target.elements;
    const named = scope === "sessions" ? sessions.value.split(",").map((each) => each.trim()).filter(Boolean) : [];
    const expires_in = days.value ? Number(days.value) * 86400 : null;
    try {
      await create({ name: name.value.trim(), scope, sessions: named, expires_in });
    } catch (failure) {
      setProblem(failure.message);
    }
  };
  return html`<form class="new-token" onSubmit=${submit} data-changes>
    <label>${_("Name")} <input name="name" required maxlength="64" autofocus /></label>
    <label>${_("Scope")} <select name="scope" value=${scope} onChange=${(event) => setScope(event.target.value)}>
      ${Object.entries(SCOPES).map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}</select></label>
    ${scope === "sessions" && html`<label>${_("Sessions, separated by commas")} <input name="sessions" required /></label>`}
    <label>${_("Expires")} <select name="days" value="90">
      ${DAYS.map((days) => html`<option key=${days} value=${days}>${_n("after {n} day", "after {n} days", days)}</option>`)}
      <option value="">${_("never")}</option></select></label>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    <p class="actions"><button type="button" class="quiet" onClick=${onClose}>${_("Cancel")}</button>
      <button type="submit" class="primary">${_("Create")}</button></p>
  </form>`;
}

function revoke(page, name, refresh) {
  const act = async () => {
    await api.revokeToken(name);
    await refresh();
  };
  const sentences = [_("Programs that use {name} are refused at once, and what they have open is closed.", { name })];
  page.set({ dialog: { kind: "confirm", title: _("Revoke this token?"), verb: _("Revoke"), danger: true, sentences, act } });
}
