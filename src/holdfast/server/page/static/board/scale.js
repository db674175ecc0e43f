// The scale of a chart: round numbers for its height, and the index of each time bucket.
const STEPS = [1, 2, 2.5, 5, 10];

/** The smallest round number above all values; `least` where all are zero. */
export function roundAbove(most, least) {
  const target = Math.max(most, least);
  const unit = 10 ** Math.floor(Math.log10(target));
  return STEPS.map((step) => step * unit).find((figure) => figure >= target * 0.9999);
}

/** The points of a chart by time bucket; null where the gateway did not run. */
export function stretches({ since, bucket_seconds, until, points }) {
  const number = Math.floor((until - since) / bucket_seconds) + 1;
  const found = new Array(Math.max(1, number)).fill(null);
  for (const point of points) {
    const index = Math.round((point.at - since) / bucket_seconds);
    if (index >= 0 && index < found.length) found[index] = point;
  }
  return found;
}
