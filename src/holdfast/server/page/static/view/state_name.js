// The names of the states of a session.
import { _ } from "../translation.js";

const NAMES = {
  starting: _("starting"),
  running: _("running"),
  waiting: _("waiting for a person"),
  parked: _("parked between two steps"),
  suspended: _("suspended"),
  ended: _("ended"),
  interrupted: _("interrupted"),
  idle: _("idle"),
};

/** A newer gateway may have more states: they are shown as they are called there. */
export const stateName = (state) => NAMES[state] ?? state;
