// The time axis of a turn. Spans in which nothing worked are compressed,
// so that a night without the gateway leaves room for the seconds around it.
const LEAST = 2; // seconds from which a gap is compressed
const SHARE = 0.12; // share of the working time: shorter gaps are not compressed
const PRESSED = 0.05; // share of the working time: the width of a compressed gap
const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];
const MARKS = 6;

/**
 * `busy`: [from, to] of work, in any order; `absent`: of downtime, which is compressed
 * even where something ran on. `origin` is zero, and `apart` the room that a mark needs,
 * in percent of the width. Returns `percent(moment)`, the compressed `gaps`, and the `marks`.
 */
export function axisOf({ from, to, origin = from, busy, absent = [], apart = 12 }) {
  const end = Math.max(to, from + 0.001);
  const within = ([one, other]) => [Math.max(from, one), Math.min(end, other)];
  const worked = joined(without(busy.map(within), joined(absent.map(within))));
  const work = worked.reduce((sum, [one, other]) => sum + other - one, 0);
  const quiet = without([[from, end]], worked);
  const long = (one, other) => other - one >= Math.max(LEAST, work * SHARE);
  const gaps = work > 0 ? quiet.filter(([one, other]) => long(one, other)) : [];
  const pieces = [...gaps.map((gap) => [...gap, true]), ...without([[from, end]], gaps).map((rest) => [...rest, false])];
  pieces.sort(([one], [other]) => one - other);
  const left = end - from - gaps.reduce((sum, [one, other]) => sum + other - one, 0);
  const laid = lay(pieces, Math.max(left, 0.001) * PRESSED);
  const percent = (moment) => percentOf(laid, moment);
  return { from, to: end, percent, gaps, marks: marksOn(laid, { origin, shown: left, percent, apart }) };
}

function lay(pieces, pressed) {
  const widths = pieces.map(([one, other, gap]) => (gap ? pressed : other - one));
  const whole = widths.reduce((sum, width) => sum + width, 0) || 1;
  let at = 0;
  return pieces.map(([one, other, gap], index) => {
    const begin = at;
    at += (widths[index] / whole) * 100;
    return { one, other, gap, begin, end: at };
  });
}

function percentOf(laid, moment) {
  const piece = laid.find(({ other }) => moment <= other) ?? laid.at(-1);
  if (!piece) return 0;
  const share = piece.other > piece.one ? (moment - piece.one) / (piece.other - piece.one) : 0;
  return piece.begin + Math.max(0, Math.min(1, share)) * (piece.end - piece.begin);
}

/** Round seconds since the origin, outside of compressed gaps, and no two too close together. */
function marksOn(laid, { origin, shown, percent, apart }) {
  const step = STEPS.find((each) => shown / each <= MARKS) ?? 86400 * Math.ceil(shown / 86400 / MARKS);
  const found = [];
  for (const { one, other, gap } of laid) {
    if (gap) continue;
    for (let mark = Math.ceil((one - origin) / step - 1e-6) * step; mark <= other - origin + 1e-6; mark += step) {
      const at = percent(origin + mark);
      if (!found.length || at - found.at(-1).at >= apart) found.push({ at, seconds: mark });
    }
  }
  return found.filter(({ at }) => at <= 100 - apart / 2);
}

/** The position of a span, as a style. */
export function between({ percent }, from, to) {
  const left = percent(from);
  return { left: `${left.toFixed(3)}%`, width: `${(percent(to) - left).toFixed(3)}%` };
}

/** Spans in order; spans that touch are merged. */
export function joined(stretches) {
  const found = [];
  for (const [one, other] of [...stretches].filter(([a, b]) => b > a).sort(([a], [b]) => a - b)) {
    const last = found.at(-1);
    if (last && one <= last[1]) last[1] = Math.max(last[1], other);
    else found.push([one, other]);
  }
  return found;
}

/** The parts of spans that are outside of `taken`, which are in order. */
export function without(stretches, taken) {
  return stretches.flatMap(([one, other]) => {
    const left = [];
    let at = one;
    for (const [from, to] of taken) {
      if (to <= at || from >= other) continue;
      if (from > at) left.push([at, from]);
      at = Math.max(at, to);
    }
    if (at < other) left.push([at, other]);
    return left;
  });
}
