// Find when a crawl got slower. Pure.

// Points on both sides of a change, and the share of the speed before that counts as slower.
const LEAST = 3;
const SHARE = 0.7;

// speeds: pages a second, the oldest first. Returns {at, before, after} of the place where the means of
// both sides differ most, or null if the crawl is not slower after it.
export function slower(speeds) {
  const first = speeds.findIndex((speed) => speed > 0);
  const known = first < 0 ? [] : speeds.slice(first);
  const sums = [0];
  known.forEach((speed) => sums.push(sums.at(-1) + speed));
  let best = null;
  for (let at = LEAST; at <= known.length - LEAST; at += 1) {
    const before = sums[at] / at;
    const after = (sums.at(-1) - sums[at]) / (known.length - at);
    // What a step there explains of all variation.
    const weight = (at * (known.length - at) * (before - after) ** 2) / known.length;
    if (!best || weight > best.weight) best = { at: first + at, before, after, weight };
  }
  return best && best.after < SHARE * best.before ? best : null;
}
