// A model at work: a text goes through it as it is typed, and so does every change of a lever.

const machine = new Machine(data.program);
const { model: { bos, pad, longest }, ends } = data;
const answers = "source" in data.program.inputs; // it answers a source, or continues a text
const grows = answers ? "target" : "ids"; // the input that what it says is a part of
const state = {
  ...AS_TRAINED, method: "greedy", beam: 4, temperature: 1, topP: 0.9, seed: 1, limit: answers ? 60 : 20,
  attention: data.attentions.length - 1, head: 0, chosen: {}, typed: [], said: [], inputs: {}, tokens: {}, logits: null,
};
const isolated = (text) => `\u2068${text}\u2069`;
const signed = (x) => x.toFixed(3).replace("-", "−");
const pieceOf = (side, id) =>
  id === bos ? "<begin>" : ends.includes(id) ? "<end>" : (side === "target" ? targetPieces : sourcePieces)[id] || "∅";

// ---- what is computed

/** The lists of ids that the model reads after it has said something. */
function inputsAfter(said) {
  if (answers) return { source: [...state.typed, ...ends.slice(0, 1)], target: [bos, ...said] };
  return { ids: [...state.typed, ...said] };
}

/** What the model says, step by step, by the chosen method. Throws an error for a text that it cannot read. */
function speech() {
  const typed = encode(byId("text").value);
  const most = longest - answers; // a source has an end
  if (typed.length > most) throw new Error(`The model reads at most ${most} tokens, not ${typed.length}`);
  state.typed = typed.length || answers ? typed : [bos ?? 0];
  const changes = changesOf(state);
  const next = (said) => logSoftmax(machine.run(inputsAfter(said), changes), inputsAfter(said)[grows].length - 1, pad);
  const limit = Math.min(state.limit, answers ? longest : longest - state.typed.length + 1);
  if (state.method === "beam") return beamSearch(next, state.beam, limit, ends);
  const drawn = drawing(state.temperature, state.topP, randomNumbers(state.seed));
  return oneByOne(next, state.method === "drawn" ? drawn : likeliest, limit, ends);
}

const PATIENCE = 60; // milliseconds after which is drawn what has been said by then
let latest = 0;

/** Let the model speak anew, and draw. A later call ends an earlier one. */
async function speak() {
  const mine = ++latest;
  byId("fault").textContent = "";
  try {
    const steps = speech();
    for (let until = performance.now() + PATIENCE; ; ) {
      const { value, done } = steps.next();
      state.said = [...value];
      if (done) break;
      if (performance.now() < until) continue;
      draw();
      await new Promise((resolve) => setTimeout(resolve));
      if (mine !== latest) return;
      until = performance.now() + PATIENCE;
    }
    draw();
  } catch (error) {
    byId("fault").textContent = `${error.message}.`;
  }
}

// ---- pictures

const attention = () => data.attentions[state.attention];
const alike = () => data.attentions.filter((one) => one.kind === attention().kind);
const queryOf = (side) => Math.min(state.chosen[side] ?? Infinity, state.inputs[side].length - 1);
const shade = (w) => ramp().at(w < 0 ? -1 : Math.round(w * (ramp().length - 2)));
const percent = (p) => `${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`;

/** The children of an element, as many as are asked for; those that stay keep the focus. */
function children(parent, count, create) {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(create(parent.children.length));
  return [...parent.children];
}

function draw() {
  const read = state.said.length - ends.includes(state.said.at(-1)); // nothing follows an end
  const first = inputsAfter([])[grows].length;
  state.inputs = inputsAfter(state.said.slice(0, Math.min(read, longest - first)));
  state.logits = machine.run(state.inputs, changesOf(state));
  for (const [side, ids] of Object.entries(state.inputs)) state.tokens[side] = ids.map((id) => pieceOf(side, id));
  byId("answer").textContent = decode(state.said);
  for (const side of Object.keys(state.inputs)) drawTokens(side, side === grows ? first : Infinity);
  for (const part of [drawNext, drawHeads, drawMap, drawNumbers]) part();
}

/** The tokens of an input; where the model says something, also the likeliest that follows each. */
function drawTokens(side, first) {
  const create = (i) => make("li", { role: "option", "data-index": i }, make("bdi"), make("small"));
  const items = children(byId(side), state.inputs[side].length, create);
  state.tokens[side].forEach((token, i) => {
    const [name, next] = items[i].children;
    name.textContent = token;
    if (side === grows) {
      const logP = logSoftmax(state.logits, i, pad);
      next.textContent = `→ ${pieceOf(side, likeliest(logP))} ${percent(Math.exp(logP[likeliest(logP)]))}`;
    }
    items[i].classList.toggle("said", i >= first);
    items[i].setAttribute("aria-selected", i === queryOf(side));
    items[i].tabIndex = i === queryOf(side) ? 0 : -1;
  });
}

/** The likeliest tokens after the chosen one, with the probabilities from which one is drawn. */
function drawNext() {
  const logP = logSoftmax(state.logits, queryOf(grows), pad);
  const shares = state.method === "drawn" ? nextProbabilities(logP, state.temperature, state.topP) : logP.map(Math.exp);
  const bar = (p) => make("span", { class: "bar", style: `--share: ${100 * p}%` }, percent(p));
  const rows = largest(shares, 10).map((id) => make("li", {}, make("bdi", {}, pieceOf(grows, id)), bar(shares[id])));
  byId("next-name").textContent = `What follows ${isolated(state.tokens[grows][queryOf(grows)])}`;
  byId("next").replaceChildren(...rows);
}

/** A small map for each layer and head, with boxes that take them out. */
function drawHeads() {
  children(byId("heads"), alike().length, () => make("div", { class: "layer" })).forEach((line, l) => {
    const one = alike()[l];
    const box = (text) => make("label", {}, make("input", { type: "checkbox" }), ` ${text}`);
    const cell = (n) => (n ? [make("button", { class: "thumbnail" }), box(n - 1)] : [box(`layer ${l}`)]);
    const create = (n) => make("div", {}, ...cell(n));
    const [whole, ...heads] = children(line, one.heads + 1, create);
    const boxed = (cell, list, name) => Object.assign(cell.querySelector("input"), {
      checked: !state[list].includes(name),
      onchange: ({ target }) => {
        const others = state[list].filter((other) => other !== name);
        set({ [list]: target.checked ? others : [...others, name] });
      },
    });
    boxed(whole, "layersOut", one.layer);
    heads.forEach((cell, h) => {
      boxed(cell, "headsOut", `${one.name} ${h}`).setAttribute("aria-label", `layer ${l}, head ${h} takes part`);
      cell.firstChild.setAttribute("aria-label", `layer ${l}, head ${h}`);
      cell.firstChild.setAttribute("aria-pressed", one === attention() && h === state.head);
      cell.firstChild.replaceChildren(smallMap(weightsOf(one, h), shade));
      cell.firstChild.onclick = () => look({ attention: data.attentions.indexOf(one), head: h });
    });
  });
}

/** A head's weights in rows; -1 where the mask hides. */
function weightsOf({ name }, h) {
  const [{ shape, data: weights }, { data: scores }] = ["weights", "scores"].map((x) => machine.named(`${name}.${x}`));
  const [, , queries, keys] = shape;
  const shown = Array.from(weights, (w, i) => (scores[i] === -Infinity ? -1 : w));
  return Array.from({ length: queries }, (_, i) => shown.slice((h * queries + i) * keys, (h * queries + i + 1) * keys));
}

/** The chosen head with its words: rows are queries, columns are keys. */
function drawMap() {
  const { queries, keys } = attention();
  const [top, ...lines] = children(byId("map"), state.tokens[queries].length + 1, () => make("tr"));
  const [, ...names] = children(top, state.tokens[keys].length + 1, (n) => make(n ? "th" : "td", {}, make("span")));
  names.forEach((cell, j) => (cell.firstChild.textContent = state.tokens[keys][j]));
  weightsOf(attention(), state.head).forEach((weights, i) => {
    const [name, ...cells] = children(lines[i], weights.length + 1, (n) => make(n ? "td" : "th"));
    name.textContent = state.tokens[queries][i];
    lines[i].classList.toggle("chosen", i === queryOf(queries));
    lines[i].onclick = () => choose(queries, i);
    cells.forEach((cell, j) => {
      const amount = weights[j] < 0 ? "masked" : weights[j].toFixed(4);
      cell.style.background = shade(weights[j]);
      cell.title = `${name.textContent} → ${names[j].textContent}: ${amount}`;
    });
  });
}

/** Numbers as small cells: warm above 0, cold below. */
function strip(x) {
  const most = x.reduce((large, y) => Math.max(large, Math.abs(y)), 1e-9);
  const style = (y) => `background: var(${y < 0 ? "--cold" : "--warm"}); opacity: ${Math.abs(y) / most}`;
  const cells = x.map((y) => make("i", { style: style(y) }));
  return make("span", { class: "strip", title: x.map(signed).join("  ") }, ...cells);
}

/** The chosen query of the chosen head in numbers, with a slider for each weight. */
function drawNumbers() {
  const { name, queries, keys, scale } = attention();
  const i = queryOf(queries);
  const vector = (variable, place, which) => {
    const { shape, data: all } = machine.named(`${name}.${variable}`, which);
    const from = (state.head * shape[2] + place) * shape[3];
    return [...all.subarray(from, from + shape[3])];
  };
  const [q, scores, weights] = [vector("q", i, "computed"), vector("scores", i), vector("weights", i)];
  byId("query-name").textContent = `The query of ${isolated(state.tokens[queries][i])} in head ${state.head} of ${name}`;
  byId("q").replaceChildren("q ", strip(q));
  byId("score-name").textContent = `× ${(scale * state.factor).toFixed(3)}, masked`;
  const slider = () => [make("input", { type: "range", min: 0, max: 1, step: 0.01 }), make("span")];
  const cells = () => [0, 1, 2, 3, 4, 5].map((n) => make("td", {}, ...(n === 4 ? slider() : [])));
  children(byId("rows"), weights.length, () => make("tr", {}, ...cells())).forEach((row, j) => {
    const [token, key, product, score, weight, value] = row.children;
    const k = vector("k", j);
    const [lever, amount] = weight.children;
    token.textContent = isolated(state.tokens[keys][j]);
    key.replaceChildren(strip(k));
    product.textContent = signed(q.reduce((sum, x, n) => sum + x * k[n], 0));
    score.textContent = scores[j] === -Infinity ? "hidden → −∞" : signed(scores[j]);
    if (lever !== document.activeElement) lever.value = weights[j];
    lever.setAttribute("aria-label", `weight of ${state.tokens[keys][j]}`);
    lever.oninput = () => set({ weight: { name, at: [state.head, i, j], to: Number(lever.value) } });
    amount.textContent = weights[j].toFixed(4);
    value.replaceChildren(strip(vector("v", j)));
  });
  byId("z").replaceChildren("z = Σ weight · v ", strip(vector("z", i)));
}

// ---- what the reader does

/** Change what is computed. */
function set(changes) {
  Object.assign(state, changes);
  for (const id of [...SLIDERS, "method"]) byId(id).value = state[id];
  for (const id of SLIDERS) byId(`${id}-is`)?.replaceChildren(Number(state[id].toFixed(2)));
  for (const id of BOXES) byId(id).checked = state[id];
  for (const part of document.querySelectorAll("[data-method]")) part.hidden = part.dataset.method !== state.method;
  byId("reset").disabled = Object.entries(AS_TRAINED).every(([name, was]) => `${state[name] ?? ""}` === `${was ?? ""}`);
  return speak();
}

/** Change what is looked at. */
const look = (changes) => draw(Object.assign(state, changes));
const choose = (side, i) => look({ chosen: { ...state.chosen, [side]: i } });

for (const side of Object.keys(data.program.inputs)) {
  byId(side).addEventListener("click", ({ target }) => {
    const item = target.closest("li");
    if (item) choose(side, Number(item.dataset.index));
  });
  byId(side).addEventListener("keydown", (event) => {
    const [now, last] = [queryOf(side), state.inputs[side].length - 1];
    const moves = { ArrowRight: Math.min(now + 1, last), ArrowLeft: Math.max(now - 1, 0), Home: 0, End: last };
    if (!(event.key in moves)) return;
    choose(side, moves[event.key]);
    byId(side).children[moves[event.key]].focus();
    event.preventDefault();
  });
}

const [SLIDERS, BOXES] = [["beam", "temperature", "topP", "limit", "factor"], ["mask", "positions"]];
for (const id of SLIDERS) {
  byId(id).addEventListener("input", ({ target }) => {
    if (target.value && target.validity.valid) set({ [id]: Number(target.value) });
  });
}
for (const id of BOXES) byId(id).addEventListener("change", ({ target }) => set({ [id]: target.checked }));
byId("text").addEventListener("input", () => set({ weight: null, chosen: {} }));
byId("method").addEventListener("change", ({ target }) => set({ method: target.value }));
byId("again").addEventListener("click", () => set({ seed: state.seed + 1 }));
byId("unscaled").addEventListener("click", () => set({ factor: 1 / attention().scale }));
byId("reset").addEventListener("click", () => set(AS_TRAINED));
byId("kind").addEventListener("change", ({ target }) => {
  byId("heads").replaceChildren();
  look({ attention: data.attentions.findIndex((one) => one.kind === target.value), head: 0 });
});
dark.addEventListener("change", draw);

options(byId("kind"), [...new Set(data.attentions.map(({ kind }) => kind))].map((x) => [x, x]), attention().kind);
byId("text").value = data.begin;
byId("mask").parentElement.hidden = !data.masks.length;
byId("positions").parentElement.hidden = !data.positions.length;
set({});
