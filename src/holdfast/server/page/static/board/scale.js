// The scale of a chart: round figures for its height, and where each stretch of time stands.
const STEPS = [1, 2, 2.5, 5, 10];

/** The least round figure that nothing goes beyond; `least` where all is nothing. */
export function roundAbove(most, least) {
  const wanted = Math.max(most, least);
  const unit = 10 ** Math.floor(Math.log10(wanted));
  return STEPS.map((step) => step * unit).find((figure) => figure >= wanted * 0.9999);
}

/** The points of a chart in their stretches of time; null where the gateway did not run. */
export function stretches({ since, bucket_seconds, until, points }) {
  const number = Math.floor((until - since) / bucket_seconds) + 1;
  const found = new Array(Math.max(1, number)).fill(null);
  for (const point of points) {
    const place = Math.round((point.at - since) / bucket_seconds);
    if (place >= 0 && place < found.length) found[place] = point;
  }
  return found;
}
