// What an address asks of a view beyond its name, as `#/outbox/state=failed&platform=irc`: what is
// chosen there is found again by a reload, a bookmark and the back button.

export function asked() {
  const [, , words = ""] = location.hash.split("/");
  return Object.fromEntries(new URLSearchParams(words));
}

/** The address of a view that is asked for this; what is empty is not in it. */
export function addressOf(view, wanted = {}) {
  const given = Object.entries(wanted).filter(([, value]) => value !== undefined && value !== "");
  return `#/${view}${given.length ? `/${new URLSearchParams(given)}` : ""}`;
}

/** Ask for something else. `typed`: letter by letter, of which the back button knows nothing. */
export function ask(page, view, wanted, { typed = false } = {}) {
  const address = addressOf(view, wanted);
  if (!typed) location.hash = address;
  else {
    history.replaceState(null, "", address);
    page.changed();
  }
}
