// Runs a recorded program. An array is { shape, data }, an op a row of the table below.

const KINDS = { bool: Uint8Array, int32: Int32Array, float32: Float32Array, float64: Float64Array };
const sizeOf = (shape) => shape.reduce((product, n) => product * n, 1);
const empty = (kind, shape) => ({ shape, data: new KINDS[kind](sizeOf(shape)) });

// ---- shapes

const moved = (list, axes) => axes.map((axis) => list[axis]);
const positive = (axis, rank) => (axis < 0 ? axis + rank : axis);

/** How far apart the neighbours along each axis of a shape are. */
function stridesOf(shape) {
  const strides = new Array(shape.length);
  for (let i = shape.length - 1, step = 1; i >= 0; step *= shape[i--]) strides[i] = step;
  return strides;
}

/** The same for an array that is repeated to a larger shape: 0 along the axes where it is. */
function repeated(x, shape) {
  const more = shape.length - x.shape.length;
  const strides = stridesOf(x.shape);
  return shape.map((_, i) => (i < more || x.shape[i - more] === 1 ? 0 : strides[i - more]));
}

/** The shape to which several are repeated. */
function common(shapes) {
  const longest = shapes.reduce((one, other) => (other.length > one.length ? other : one));
  const lengths = (i) => shapes.map((shape) => shape[shape.length - longest.length + i]);
  return longest.map((_, i) => lengths(i).find((n) => n !== 1 && n !== undefined) ?? 1);
}

/** Call `each(number of the row, where it begins in each operand)` for all rows along the last axis of a shape. */
function rows(shape, strides, starts, each) {
  const outer = shape.slice(0, -1);
  const [place, at] = [outer.map(() => 0), [...starts]];
  for (let row = 0, count = sizeOf(outer); row < count; row++) {
    each(row, at);
    for (let axis = outer.length - 1; axis >= 0; axis--) {
      place[axis]++;
      for (let k = 0; k < at.length; k++) at[k] += strides[k][axis];
      if (place[axis] < outer[axis]) break;
      for (let k = 0; k < at.length; k++) at[k] -= strides[k][axis] * outer[axis];
      place[axis] = 0;
    }
  }
}

/** The elements of x from `start` on, along axes of these lengths and strides. */
function taken(kind, x, shape, strides, start = 0) {
  const out = empty(kind, shape);
  const [n, step] = [shape.at(-1) ?? 1, strides.at(-1) ?? 0];
  const copy = (row, [from]) => { for (let j = 0; j < n; j++) out.data[row * n + j] = x.data[from + j * step]; };
  rows(shape, [strides], [start], copy);
  return out;
}

const permuted = (kind, x, axes) => taken(kind, x, moved(x.shape, axes), moved(stridesOf(x.shape), axes));

/** x at some indices along an axis. */
function gathered(kind, x, axis, indices) {
  const out = empty(kind, x.shape.with(axis, indices.length));
  const [n, inner] = [x.shape[axis], sizeOf(x.shape.slice(axis + 1))];
  for (let from = 0, to = 0; from < x.data.length; from += n * inner) {
    for (const start of indices.map((i) => from + positive(i, n) * inner)) {
      out.data.set(x.data.subarray(start, start + inner), to);
      to += inner;
    }
  }
  return out;
}

// ---- families of ops

/** A function of numbers as a function of arrays, which are repeated to a common shape. */
const elementwise = (f) => (kind, given) => {
  const arrays = given.map((x) => (typeof x === "number" ? { shape: [], data: [x] } : x));
  const shape = common(arrays.map((x) => x.shape));
  const out = empty(kind, shape).data;
  const strides = arrays.map((x) => repeated(x, shape));
  const n = shape.at(-1) ?? 1;
  const [x, y, z] = arrays.map((array) => array.data);
  const [s, t, u] = strides.map((each) => each.at(-1) ?? 0);
  const along = [
    (to, [a]) => { for (let j = 0; j < n; j++) out[to + j] = f(x[a + j * s]); },
    (to, [a, b]) => { for (let j = 0; j < n; j++) out[to + j] = f(x[a + j * s], y[b + j * t]); },
    (to, [a, b, c]) => { for (let j = 0; j < n; j++) out[to + j] = f(x[a + j * s], y[b + j * t], z[c + j * u]); },
  ][arrays.length - 1];
  rows(shape, strides, arrays.map(() => 0), (row, at) => along(row * n, at));
  return { shape, data: out };
};

/** A function of (result so far, number) along some axes. */
const reduction = (first, f, end = (result) => result) => (kind, [x], { axis, keepdims }) => {
  const every = x.shape.map((_, i) => i);
  const axes = axis ?? every;
  const kept = every.filter((i) => !axes.includes(i));
  const apart = permuted(kind, x, [...kept, ...axes]);
  const count = sizeOf(moved(x.shape, axes));
  const data = empty(kind, moved(x.shape, kept)).data;
  data.forEach((_, i) => (data[i] = end(apart.data.subarray(i * count, (i + 1) * count).reduce(f, first), count)));
  return { shape: keepdims ? every.map((i) => (axes.includes(i) ? 1 : x.shape[i])) : moved(x.shape, kept), data };
};

/** Vectors divided by their length: of what is left without their mean, or of the numbers themselves. */
const normalisation = (isCentred) => (kind, [x, weight, bias], { eps }) => {
  const out = empty(kind, x.shape);
  const n = x.shape.at(-1);
  for (let from = 0; from < x.data.length; from += n) {
    let [mean, squares] = [0, 0];
    for (let j = 0; isCentred && j < n; j++) mean += x.data[from + j] / n;
    for (let j = 0; j < n; j++) squares += (x.data[from + j] - mean) ** 2 / n;
    const scale = 1 / Math.sqrt(squares + eps);
    for (let j = 0; j < n; j++) {
      out.data[from + j] = (x.data[from + j] - mean) * scale * (weight?.data[j] ?? 1) + (bias?.data[j] ?? 0);
    }
  }
  return out;
};

/** Each pair (a, b) of a vector's elements, turned by the angle of its position. */
function rotate(kind, [x, cos, sin], { pairing }) {
  const out = empty(kind, x.shape);
  const half = x.shape.at(-1) / 2;
  const [near, far] = pairing === "half" ? [1, half] : [2, 1];
  const strides = repeated(cos, [...x.shape.slice(0, -1), half]);
  rows(x.shape, [strides], [0], (row, [angle]) => {
    for (let j = 0, i = 2 * half * row; j < half; j++, i += near) {
      const [a, b, p, q] = [x.data[i], x.data[i + far], cos.data[angle + j], sin.data[angle + j]];
      out.data[i] = a * p - b * q;
      out.data[i + far] = a * q + b * p;
    }
  });
  return out;
}

/** Products of matrices; where one is the second of all, the first are one tall matrix. */
function matmul(kind, [x, y]) {
  const [n, k, m] = [x.shape.at(-2), x.shape.at(-1), y.shape.at(-1)];
  const outer = [x.shape.slice(0, -2), y.shape.slice(0, -2)];
  const batch = common(outer);
  const out = empty(kind, [...batch, n, m]);
  const strides = [n * k, k * m].map((size, i) => [...repeated({ shape: outer[i] }, batch).map((s) => s * size), 0]);
  const each = (row, [i, j], height) => multiply(x.data, i, y.data, j, out.data, row * n * m, height, k, m);
  if (y.data.length === k * m) each(0, [0, 0], sizeOf(batch) * n);
  else rows([...batch, 1], strides, [0, 0], (row, at) => each(row, at, n));
  return out;
}

/** The product of (n, k) in x and (k, m) in y, four rows of y at a time. */
function multiply(x, atX, y, atY, out, at, n, k, m) {
  const sums = new Float64Array(m);
  for (let i = 0; i < n; i++, at += m, atX += k) {
    sums.fill(0);
    let l = 0;
    for (; l + 3 < k; l += 4) {
      const [a, b, c, d] = [x[atX + l], x[atX + l + 1], x[atX + l + 2], x[atX + l + 3]];
      const [p, q, r, s] = [atY + l * m, atY + (l + 1) * m, atY + (l + 2) * m, atY + (l + 3) * m];
      for (let j = 0; j < m; j++) sums[j] += a * y[p + j] + b * y[q + j] + c * y[r + j] + d * y[s + j];
    }
    for (; l < k; l++) for (let j = 0; j < m; j++) sums[j] += x[atX + l] * y[atY + l * m + j];
    out.set(sums, at);
  }
}

/** x[key]: numbers, slices, new axes, an ellipsis, and a vector of indices. */
function getitem(kind, [x], { key }) {
  const named = key.filter((part) => part !== null && !part.ellipsis).length;
  const others = new Array(x.shape.length - named).fill({ slice: [] });
  const isOpen = key.some((part) => part?.ellipsis);
  const [shape, strides] = [[], []];
  const add = (n, step) => [shape.push(n), strides.push(step)];
  let [axis, start] = [0, 0];
  for (let part of isOpen ? key.flatMap((one) => (one?.ellipsis ? others : [one])) : [...key, ...others]) {
    if (part?.data) [x, part] = [gathered(kind, x, axis, part.data), { slice: [] }];
    const [n, apart] = [x.shape[axis], stridesOf(x.shape)[axis]];
    if (part === null) add(1, 0);
    else if (typeof part === "number") start += apart * positive(part, n);
    else {
      const [first, last, step] = [part.slice[0] ?? 0, part.slice[1] ?? n, part.slice[2] ?? 1];
      const [from, to] = [first, last].map((i) => Math.min(Math.max(positive(i, n), 0), n));
      start += apart * from;
      add(Math.max(0, Math.ceil((to - from) / step)), apart * step);
    }
    axis += part !== null;
  }
  return taken(kind, x, shape, strides, start);
}

/** Matrices with 0 where `keeps(column - row, k)` is false. */
const triangle = (keeps) => (kind, [{ shape, data }], { k }) => {
  const [n, m] = shape.slice(-2);
  return { shape, data: data.map((y, i) => (keeps((i % m) - (Math.floor(i / m) % n), k) ? y : 0)) };
};

/** The error function, to 2e-7 (Abramowitz and Stegun 1964, 7.1.26). */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

// ---- the table

const OPS = {
  add: elementwise((x, y) => x + y),
  subtract: elementwise((x, y) => x - y),
  multiply: elementwise((x, y) => x * y),
  divide: elementwise((x, y) => x / y),
  negative: elementwise((x) => -x),
  exp: elementwise(Math.exp),
  sqrt: elementwise(Math.sqrt),
  sin: elementwise(Math.sin),
  cos: elementwise(Math.cos),
  sigmoid: elementwise((x) => 1 / (1 + Math.exp(-x))),
  relu: elementwise((x) => (x > 0 ? x : 0)),
  gelu: elementwise((x) => (x / 2) * (1 + erf(x / Math.SQRT2))),
  gelu_tanh: elementwise((x) => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))),
  equal: elementwise((x, y) => x === y),
  where: elementwise((condition, x, y) => (condition ? x : y)),
  masked_fill: elementwise((x, mask, value) => (mask ? value : x)),
  bitwise_or: elementwise((x, y) => x | y),
  bitwise_invert: elementwise((x) => x ^ 1),
  astype: elementwise((x) => x),
  max: reduction(-Infinity, (most, x) => (x > most ? x : most)),
  sum: reduction(0, (sum, x) => sum + x),
  mean: reduction(0, (sum, x) => sum + x, (sum, count) => sum / count),
  layer_norm: normalisation(true),
  rms_norm: normalisation(false),
  triu: triangle((right, k) => right >= k),
  tril: triangle((right, k) => right <= k),
  embedding: (kind, [x, ids]) => ({ shape: [...ids.shape, x.shape[1]], data: gathered(kind, x, 0, ids.data).data }),
  permute_dims: (kind, [x], { axes }) => permuted(kind, x, axes),
  matrix_transpose: (kind, [x]) =>
    permuted(kind, x, x.shape.map((_, i) => (i < x.shape.length - 2 ? i : 2 * x.shape.length - 3 - i))),
  expand_dims: (kind, [x], { axis }) => ({ shape: x.shape.toSpliced(axis, 0, 1), data: x.data }),
  reshape: (kind, [{ data }], { to }) => ({ shape: to.map((n) => (n < 0 ? -data.length / sizeOf(to) : n)), data }),
  arange: (kind, [start, stop, step]) => {
    const shape = [Math.max(0, Math.ceil((stop - start) / step))];
    return { shape, data: KINDS[kind].from({ length: shape[0] }, (_, i) => start + i * step) };
  },
  full: (kind, [shape, number]) => ({ shape, data: new KINDS[kind](sizeOf(shape)).fill(number) }),
  getitem,
  rotate,
  matmul,
};

// ---- the program

/** A parameter with what its objects mean: arrays, lengths, infinities. */
function meant(value, array) {
  if (Array.isArray(value)) return value.map((part) => meant(part, array));
  if (value === null || typeof value !== "object") return value;
  if ("array" in value) return array(value.array);
  if ("number" in value) return { inf: Infinity, "-inf": -Infinity, nan: NaN }[value.number];
  if ("along" in value) return array(value.along[0]).shape[value.along[1]] * value.along[2] + value.along[3];
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, meant(part, array)]));
}

/** The places of the arrays that a parameter reads. */
function readBy(value) {
  if (value === null || typeof value !== "object") return [];
  if ("array" in value) return [value.array];
  return "along" in value ? [value.along[0]] : Object.values(value).flatMap(readBy);
}

/** A program with its arrays. What reads nothing new is not computed again, so weights are transposed once. */
class Machine {
  constructor(program) {
    this.program = program;
    this.values = new Array(program.count);
    this.clock = 0;
    const bytes = Uint8Array.from(atob(program.numbers), (c) => c.charCodeAt(0));
    for (const [place, kind, shape, start] of program.constants) {
      this.keep(place, { shape, data: new KINDS[kind](bytes.buffer, start, sizeOf(shape)) });
    }
    this.steps = program.calls.map(([op, ...others]) => [OPS[op], ...others, readBy(others.slice(0, 2))]);
  }

  keep(place, array, computed = array, change) {
    this.values[place] = { array, computed, change, since: this.clock };
  }

  /** What has a name: what goes on in the program, or, as "computed", what was there before it was changed. */
  named(name, which = "array") {
    return this.values[this.program.names[name][0]][which];
  }

  /**
   * The result for lists of ids by name. `changes` are functions of arrays by their place, { key, f }; one whose key is
   * that of the last run is taken to be the same.
   */
  run(inputs, changes = {}) {
    this.clock++;
    for (const [name, ids] of Object.entries(inputs)) {
      const place = this.program.inputs[name];
      const isSame = `${this.values[place]?.array.data}` === `${ids}`;
      if (!isSame) this.keep(place, { shape: [1, ids.length], data: Int32Array.from(ids) });
    }
    const array = (place) => this.values[place].array;
    for (const [make, operands, params, place, kind, reads] of this.steps) {
      const [known, change] = [this.values[place], changes[place]];
      const isNew = !known || reads.some((read) => this.values[read].since > known.since);
      if (!isNew && known.change === change?.key) continue;
      const computed = isNew ? make(kind, meant(operands, array), meant(params, array)) : known.computed;
      this.keep(place, change ? change.f(computed, array) : computed, computed, change?.key);
    }
    return array(this.program.result);
  }
}
