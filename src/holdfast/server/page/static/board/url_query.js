// The query in the address of a view, as `#/outbox/state=failed&platform=irc`: it
// survives a reload, and works with bookmarks and the back button.

export function queryParams() {
  const [, , text = ""] = location.hash.split("/");
  return Object.fromEntries(new URLSearchParams(text));
}

/** The address of a view with this query; empty values are left out. */
export function addressOf(view, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  return `#/${view}${given.length ? `/${new URLSearchParams(given)}` : ""}`;
}

/** Changes the query. `typed`: it changes with each letter, so that no history entry is made. */
export function setQuery(page, view, query, { typed = false } = {}) {
  const address = addressOf(view, query);
  if (!typed) location.hash = address;
  else {
    history.replaceState(null, "", address);
    page.changed();
  }
}
