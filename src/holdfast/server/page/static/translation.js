// Translation: texts of the page in the language of the browser. The English text is the key.
//
//   _("Nothing waits for approval.")
//   _("Could not load {name}: {reason}", { name, reason })
//   _n("{n} message", "{n} messages", count)
//
// The catalogue is loaded before any other module of the page runs (top-level await), so texts may
// also be constants of a module. English needs no catalogue and no request.

const PLURALS_KNOWN = 200; // forms are listed for 0 to 199; larger numbers have the form of 100 + n % 100

const { language, texts, plurals } = await loadCatalogue();

/** The language that the texts are in, as in HTML: "de", "pt-BR". */
export { language };

async function loadCatalogue() {
  const english = { language: "en", texts: {}, plurals: "" };
  const preferred = navigator.languages?.[0] ?? navigator.language ?? "en";
  if (/^en(-(?!XA)|$)/.test(preferred)) return english;
  try {
    const response = await fetch("/page/catalogue.json");
    return response.ok ? await response.json() : english;
  } catch {
    return english; // offline: a page in English is better than none
  }
}

/** The text in the language of the page, with its {values} filled in. */
export function _(text, values) {
  return fill(texts[text] ?? text, values);
}

/** The form of the text that fits the number, which is its value {n}. */
export function _n(singular, plural, n, values) {
  const forms = texts[singular];
  const english = n === 1 ? singular : plural;
  return fill(Array.isArray(forms) ? forms[formOf(n)] ?? english : english, { n: NUMBER.format(n), ...values });
}

const NUMBER = new Intl.NumberFormat();

function formOf(n) {
  const whole = Math.floor(Math.abs(n));
  return Number(plurals[whole < PLURALS_KNOWN ? whole : 100 + (whole % 100)] ?? 0);
}

function fill(text, values) {
  if (!values) return text;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

document.documentElement.lang = language;
