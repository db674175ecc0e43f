// Translation: texts of the page in the language of the browser. The English text is the key.
//
//   _("Nothing waits for approval.")
//   _("Could not load {name}: {reason}", { name, reason })
//   _n("{n} message", "{n} messages", count)
//
// A value may be an element of the page: the result is then a list of children.
//
//   html`<p>${_("Run {command} in a terminal.", { command: html`<code>holdfast link</code>` })}</p>`
//
// The catalogue is loaded before any other module of the page runs (top-level await), so texts may
// also be constants of a module. English needs no catalogue and no request.

const PLURALS_KNOWN = 200; // forms are listed for 0 to 199; larger numbers have the form of 100 + n % 100
const PSEUDO = "en-XA"; // shows each text as ⟦…⟧, for tests: a text without the brackets is not marked
const RIGHT_TO_LEFT = ["ar", "dv", "fa", "he", "ku", "ps", "sd", "ug", "ur", "yi"];

const preferred = navigator.languages?.length ? navigator.languages : [navigator.language || "en"];
const { language, texts, plurals } = await loadCatalogue();

/** For dates and numbers, as in HTML: "en-GB", "de-AT". The region is that of the browser. */
export const locale = preferred.find((tag) => primary(tag) === primary(language) && tag !== PSEUDO) ?? language.replace(PSEUDO, "en");

async function loadCatalogue() {
  const english = { language: "en", texts: {}, plurals: "" };
  if (primary(preferred[0]) === "en" && preferred[0] !== PSEUDO) return english;
  try {
    const response = await fetch(new URL("catalogue.json", import.meta.url));
    return response.ok ? await response.json() : english;
  } catch {
    return english; // offline: a page in English is better than none
  }
}

/** The text in the language of the page, with its {values} filled in. */
export function _(text, values) {
  return fill(bracketed(texts[text] ?? text), values);
}

/** The form of the text that fits the number, which is its value {n}. */
export function _n(singular, plural, n, values) {
  const forms = texts[singular];
  const english = n === 1 ? singular : plural;
  const text = Array.isArray(forms) ? (forms[formOf(n)] ?? english) : english;
  return fill(bracketed(text), { n: NUMBER.format(n), ...values });
}

const NUMBER = new Intl.NumberFormat(locale);

function formOf(n) {
  const whole = Math.floor(Math.abs(n));
  return Number(plurals[whole < PLURALS_KNOWN ? whole : 100 + (whole % 100)] ?? 0);
}

function bracketed(text) {
  return language === PSEUDO ? `⟦${text}⟧` : text;
}

function fill(text, values) {
  if (!values) return text;
  // Every second piece is the name of a value.
  const pieces = text.split(/\{(\w+)\}/).map((piece, index) => (index % 2 ? (values[piece] ?? "") : piece));
  return pieces.some((piece) => piece !== null && typeof piece === "object") ? pieces : pieces.join("");
}

function primary(tag) {
  return tag.split("-")[0].toLowerCase();
}

document.documentElement.lang = language;
document.documentElement.dir = RIGHT_TO_LEFT.includes(primary(language)) ? "rtl" : "ltr";
