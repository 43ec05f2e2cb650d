// What a reader changes in a model, as functions of the values that have names, as in `nn.intervene`.

const AS_TRAINED = { factor: 1, mask: true, positions: true, headsOut: [], layersOut: [], weight: null };

/** The changes for a machine. Heads are "name head", layers names, a weight is { name, at: [head, query, key], to }. */
function changesOf({ factor, mask, positions, headsOut, layersOut, weight }) {
  const { names } = data.program;
  const changes = {};
  const change = (name, key, f) => names[name].forEach((place, call) => {
    const former = changes[place];
    const both = (x, array) => f(former ? former.f(x, array) : x, array, call);
    changes[place] = { key: `${former?.key ?? ""} ${name} ${key}`, f: both };
  });
  const mapped = (name, key, f) =>
    change(name, key, (x) => ({ shape: x.shape, data: x.data.map((y, i) => f(y, i, x)) }));
  const instead = (name, other) => change(name, other, (x, array, call) => array(names[other][call]));

  for (const name of mask ? [] : data.masks) {
    mapped(name, "off", (y, i, { data: all }) => (all instanceof Uint8Array || y === -Infinity ? 0 : y));
  }
  for (const [name, to] of positions ? [] : data.positions) {
    if (to === "level") mapped(name, to, (y) => (y === -Infinity ? y : 0));
    else if (typeof to === "number") mapped(name, to, () => to);
    else instead(name, to);
  }
  if (factor !== 1) for (const { name } of data.attentions) mapped(`${name}.q`, factor, (y) => y * factor);
  for (const [name, h] of headsOut.map((head) => head.split(" "))) {
    mapped(`${name}.z`, h, (y, i, { shape }) => (Math.floor(i / shape[2] / shape[3]) === Number(h) ? 0 : y));
  }
  for (const layer of layersOut) instead(layer, data.attentions.find((one) => one.layer === layer).reads);
  if (weight) change(`${weight.name}.weights`, [weight.at, weight.to], (x) => withWeight(x, weight));
  return changes;
}

/** Weights with another one at [head, query, key]; the others of its row share the rest as before. */
function withWeight({ shape, data: all }, { at: [h, i, j], to }) {
  const [, heads, queries, keys] = shape;
  const found = all.slice();
  const row = found.subarray((h * queries + i) * keys, (h * queries + i + 1) * keys);
  const others = row.reduce((sum, w, k) => sum + (k === j ? 0 : w), 0);
  if (h < heads && i < queries && j < keys) {
    row.forEach((w, k) => (row[k] = k === j ? to : others > 0 ? (w / others) * (1 - to) : 0));
  }
  return { shape, data: found };
}
