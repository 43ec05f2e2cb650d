// From the logits of a machine to texts: greedily, by beam search, by drawing. Each yields its ids after every step.

/** Log-probabilities of what follows one position; padding never does. */
function logSoftmax(logits, row, pad) {
  const n = logits.shape.at(-1);
  const x = Float64Array.from(logits.data.subarray(row * n, (row + 1) * n));
  const most = x.reduce((a, b) => Math.max(a, b));
  const total = most + Math.log(x.reduce((sum, y) => sum + Math.exp(y - most), 0));
  return x.map((y, id) => (id === pad ? -Infinity : y - total));
}

/** The places of the largest numbers, the largest first; of equal ones the first. */
function largest(x, count) {
  const found = [];
  for (let i = 0; i < x.length; i++) {
    if (found.length === count && !(x[i] > x[found[count - 1]])) continue;
    let at = found.length;
    while (at > 0 && x[i] > x[found[at - 1]]) at--;
    found.splice(at, 0, i);
    if (found.length > count) found.pop();
  }
  return found;
}

/** softmax(log p / temperature), narrowed to the likeliest ids that together reach topP. */
function nextProbabilities(logP, temperature, topP) {
  const order = largest(logP, logP.length);
  const odds = order.map((id) => Math.exp((logP[id] - logP[order[0]]) / temperature));
  const total = odds.reduce((a, b) => a + b);
  const kept = new Float64Array(logP.length);
  let before = 0;
  for (let i = 0; i < order.length && before / total < topP; before += odds[i++]) kept[order[i]] = odds[i];
  return kept.map((p) => p / before);
}

const likeliest = (logP) => largest(logP, 1)[0];

/** A function that draws an id; `random` gives numbers from 0 to 1. */
const drawing = (temperature, topP, random) => (logP) => {
  const p = nextProbabilities(logP, temperature, topP);
  let rest = random();
  return Math.max(0, p.findIndex((share) => share > 0 && (rest -= share) < 0));
};

/** One id after the other: `next(ids)` gives the log-probabilities of what follows them. */
function* oneByOne(next, choose, limit, ends) {
  const ids = [];
  while (ids.length < limit && !ends.includes(ids.at(-1))) {
    ids.push(choose(next(ids)));
    yield ids;
  }
  return ids;
}

/** The search of `models.decoding.beam_search` for one sentence, whose best hypothesis is the result. */
function* beamSearch(next, beam, limit, ends) {
  const ended = [];
  const end = (one) => ended.length < beam && ended.push({ ...one, score: one.total / one.ids.length });
  let branches = [{ ids: [], total: 0 }];
  for (let length = 1; branches.length && ended.length < beam && length <= limit; length++) {
    const longer = branches.flatMap(({ ids, total }) => {
      const logP = next(ids);
      return largest(logP, 2 * beam).map((id) => ({ ids: [...ids, id], total: total + logP[id] }));
    });
    const totals = longer.map((one) => one.total);
    const possible = largest(totals, 2 * beam).map((i) => longer[i]).filter((one) => one.total > -Infinity);
    const isOver = (one) => ends.includes(one.ids.at(-1));
    possible.slice(0, beam).filter(isOver).forEach(end);
    branches = possible.filter((one) => !isOver(one)).slice(0, beam);
    if (length === limit) branches.forEach(end);
    if (branches.length) yield branches[0].ids;
  }
  return ended[likeliest(ended.map((one) => one.score))].ids;
}

/** Numbers from 0 to 1, the same for the same seed (Marsaglia 2003, xorshift). */
function randomNumbers(seed) {
  let x = (seed * 2654435761) | 1;
  const next = () => [13, -17, 5].reduce((y, shift) => y ^ (shift > 0 ? y << shift : y >>> -shift), x);
  return () => ((x = next()) >>> 0) / 2 ** 32;
}
