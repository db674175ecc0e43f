// What a delivery carries.
import { _ } from "../translation.js";

export const DELIVERY_KINDS = {
  reply: _("a reply"),
  command: _("the answer to a command"),
  notice: _("a notice"),
  question: _("a question"),
  code: _("a pairing code"),
  file: _("a file"),
  message: _("a proactive message"),
  farewell: _("a notice that the gateway stops"),
};
