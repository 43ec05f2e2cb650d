// A backward pass, step by step: the panel tells the step, the graph shows where it is.
const [graph, panel, slider] = ["graph", "panel", "slider"].map(byId);
const PAUSE = 2400; // milliseconds that a step stays, at normal speed
const MOST_LINES = 4; // longer sources stay folded until the reader opens them
const SMALLEST = 0.6; // a graph that fits at this scale is shown whole at first

const state = { part: "backward", place: 0, timer: null };

/** The last frame of the backward pass shows the gradients that are left. */
const length = () => (state.part === "forward" ? data.ops.length : data.steps.length + 1);
const atEnd = () => state.part === "backward" && state.place === data.steps.length;

// ---- what a step looks like, as elements

/** An array under its name; `kind` is "gradient" for those that flow backward. */
function array(name, place, kind = "") {
  const [shape, numbers, tints, columns] = data.arrays[place];
  const caption = make("figcaption", {}, name, ` · ${shape}`);
  const text = make("pre", { class: kind }, ...(columns ? [numbers] : tinted(numbers, tints || [])));
  return make("figure", {}, caption, text, columns ? map(tints, columns) : null);
}

/** Each number with a shade of how large it is: warm above 0, cold below. */
function tinted(numbers, tints) {
  let place = 0;
  return numbers.split(/(\s+|\[[^\]]*\])/).map((part) => {
    if (!part.trim() || part.startsWith("[") || !tints.length) return part;
    return make("span", { style: `background: ${shade(tints[place++])}` }, part);
  });
}

const shade = (tint) => `color-mix(in srgb, var(${tint < 0 ? "--cold" : "--warm"}) ${Math.abs(tint) * 6}%, transparent)`;

/** A large array as a small map. */
function map(tints, columns) {
  const cells = tints.map((tint) => make("i", { style: `background: ${shade(tint)}` }));
  return make("div", { class: "map", "aria-hidden": "true", style: `grid-template-columns: repeat(${columns}, 8px)` }, ...cells);
}

const giver = (step) => data.ops[data.steps[step].op].name;
const note = (text) => (text ? make("p", { class: "note" }, text) : null);

function source(summary, place) {
  if (place === null || place === undefined) return null;
  const text = data.texts[place];
  const open = text.split("\n").length <= MOST_LINES ? { open: "" } : {};
  return make("details", open, make("summary", {}, summary), make("pre", { class: "source" }, text));
}

function heading(op) {
  const where = [op.module, op.line, op.inside ? `drawn within ${op.inside}` : ""].filter((text) => text);
  return [
    make("h2", {}, op.title),
    make("p", { class: "about" }, where.join(" · ") || "\u00a0"),
    op.detail ? make("p", { class: "caption" }, op.detail) : null,
  ];
}

/** The contributions to a gradient, and their sum if it is known. */
function terms(list, sum) {
  const parts = list.map(([step, input, place]) => {
    const link = make("a", { href: `#backward=${step + 1}` }, `from step ${step + 1}, ${giver(step)}`);
    return array(make("span", {}, link, `: ∂L/∂${input}`), place, "gradient");
  });
  const signed = (part, i) => make("div", { class: "term" }, make("span", { class: "sign" }, i ? "+" : ""), part);
  const all = parts.map(signed);
  if (sum !== null) all.push(make("div", { class: "term sum" }, make("span", { class: "sign" }, "="), sum));
  return make("div", { class: "terms" }, ...all);
}

function from(step) {
  const link = make("a", { href: `#backward=${step + 1}` }, `step ${step + 1}`);
  return make("p", { class: "caption" }, "from ", link, `, ${giver(step)}`);
}

const reads = (list) =>
  make(
    "div",
    { class: "reads" },
    ...list.map(([name, word, place]) =>
      place === null
        ? make("p", { class: "caption" }, `${name} = ${word}`)
        : array(word && word !== name ? `${name}: ${word}` : name, place),
    ),
  );

const isSentence = (text) => /^[A-Z][a-z]/.test(text);

function rule(one) {
  const target = one.to === one.input ? one.to : `${one.input}, of ${one.to}`;
  const parts = [];
  if (one.formula !== undefined) {
    if (one.formula) parts.push(make("code", { class: "formula" }, `∂L/∂${one.input}${isSentence(one.formula) ? ": " : " = "}${one.formula}`));
    if (one.reads) parts.push(reads(one.reads));
    parts.push(source("its code", one.source));
  }
  const label = make("span", {}, `∂L/∂${target}`);
  if (one.next !== undefined) label.append(" → ", make("a", { href: `#backward=${one.next + 1}` }, `step ${one.next + 1}`));
  parts.push(array(label, one.left, "gradient"), note(one.summed));
  return make("div", { class: "rule" }, ...parts.filter((part) => part !== null));
}

function backwardPanel(step) {
  const op = data.ops[step.op];
  const arrived = array(`g = ∂L/∂${step.of}`, step.arrived, "gradient");
  const parts = [...heading(op), make("h3", {}, "The gradient that arrives")];
  if (step.terms.length > 1) parts.push(terms(step.terms, arrived));
  else {
    if (step.terms.length) parts.push(from(step.terms[0][0]));
    parts.push(arrived);
  }
  parts.push(note(step.note));
  parts.push(make("h3", {}, step.rules.length > 1 ? "The rules, and what leaves" : "The rule, and what leaves"));
  if (step.fused) {
    parts.push(
      make("p", { class: "caption" }, "A fused op: one fast backward pass gave all its gradients at once. Its formula:"),
      make("code", { class: "formula" }, step.fused[0]),
      source("the formula's code", step.fused[1]),
      reads(step.reads),
    );
  }
  parts.push(...step.rules.map(rule));
  parts.push(make("h3", {}, "The result, from the forward pass"), array(step.of === "out" ? "out" : `out = ${step.of}`, op.result));
  return parts;
}

function forwardPanel(op) {
  return [
    ...heading(op),
    make("h3", {}, "What it reads"),
    reads(op.inputs),
    make("h3", {}, "What it gives"),
    array(op.title, op.result),
  ];
}

function endPanel() {
  const parts = [make("h2", {}, "The gradients"), make("p", { class: "about" }, "where the pass has ended")];
  for (const leaf of data.leaves) {
    parts.push(make("h3", {}, `${leaf.kind} ${leaf.name === leaf.kind ? "" : leaf.name} · ${leaf.shape}`));
    const total = leaf.gradient === null ? null : array(`∂L/∂${leaf.name}`, leaf.gradient, "gradient");
    if (leaf.terms.length > 1 || total === null) parts.push(terms(leaf.terms, total));
    else parts.push(from(leaf.terms[0][0]), total);
    parts.push(note(leaf.note));
  }
  return parts;
}

// ---- the graph

const HEAD = 9; // points that the head of an arrow is long
const CLASSES = ["now", "reached", "passed", "in", "out"];
const vertex = (name) => document.getElementById(data.vertices[name]);
const edges = (name) => (data.edges[name] || []).map((id) => document.getElementById(id));

function mark() {
  for (const marked of graph.querySelectorAll(CLASSES.map((name) => `g.${name}`).join())) {
    marked.classList.remove(...CLASSES);
  }
  const add = (name, ...items) => items.forEach((item) => item && item.classList.add(name));
  if (state.part === "forward") {
    data.ops.slice(0, state.place).forEach((op) => {
      add("passed", vertex(op.vertex), ...op.edges.flatMap(edges));
    });
    const op = data.ops[state.place];
    add("in", ...op.edges.flatMap(edges));
    add("now", vertex(op.vertex));
    return vertex(op.vertex);
  }
  data.steps.slice(0, state.place).forEach((step) => {
    const ways = [...(step.ends || []), ...step.rules.map((one) => one.edge).filter((name) => name)];
    add("passed", vertex(data.ops[step.op].vertex), ...ways.flatMap(edges));
    step.rules.forEach((one) => add("passed", vertex(one.vertex)));
  });
  if (atEnd()) {
    data.leaves.forEach((leaf) => add("reached", vertex(leaf.vertex)));
    return null;
  }
  const step = data.steps[state.place];
  const came = step.terms.flatMap(([from, input]) =>
    data.steps[from].rules.filter((one) => one.input === input).map((one) => one.edge),
  );
  add("in", ...[...(step.ends || []), ...came].filter((name) => name).flatMap(edges));
  add("out", ...step.rules.filter((one) => one.edge).flatMap((one) => edges(one.edge)));
  step.rules.forEach((one) => add("reached", vertex(one.vertex)));
  const now = vertex(data.ops[step.op].vertex);
  add("now", now);
  return now;
}

/** Give each edge a second head, at its other end: a gradient flows from the result of an op to its inputs. */
function turnHeads() {
  for (const path of graph.querySelectorAll(".edge path")) {
    const [tip, along] = [path.getPointAtLength(0), path.getPointAtLength(HEAD)];
    const [x, y] = [along.x - tip.x, along.y - tip.y];
    const side = (sign) => `${along.x - sign * y * 0.4},${along.y + sign * x * 0.4}`;
    path.after(makeSvg("polygon", { class: "turned", points: `${tip.x},${tip.y} ${side(1)} ${side(-1)}` }));
  }
}

/** Bring a vertex to the middle, unless it is well in sight. */
function show(item) {
  if (!item) return;
  const [outer, inner] = [graph.getBoundingClientRect(), item.getBoundingClientRect()];
  const margin = { x: outer.width * 0.15, y: outer.height * 0.2 };
  const inSight =
    inner.left > outer.left + margin.x && inner.right < outer.right - margin.x &&
    inner.top > outer.top + margin.y && inner.bottom < outer.bottom - margin.y;
  if (inSight) return;
  graph.scrollTo(
    graph.scrollLeft + (inner.left + inner.right - outer.left - outer.right) / 2,
    graph.scrollTop + (inner.top + inner.bottom - outer.top - outer.bottom) / 2,
  );
}

// ---- one frame

function sentence() {
  const count = `${state.part === "forward" ? "Op" : "Step"} ${state.place + 1} of ${length()}`;
  if (atEnd()) return `${count}: the gradients of ${data.leaves.length} leaves.`;
  if (state.part === "forward") return `${count}: ${data.ops[state.place].title}.`;
  const step = data.steps[state.place];
  const sum = step.terms.length > 1 ? `, the sum of ${step.terms.length}` : "";
  const left = step.rules.map((one) => one.to).join(", ");
  return `${count}: ${data.ops[step.op].title}; a gradient ${data.arrays[step.arrived][0]} arrives${sum}; gradients leave for ${left}.`;
}

function draw() {
  state.place = Math.max(0, Math.min(state.place, length() - 1));
  const { part, place } = state;
  const frame = atEnd() ? endPanel() : part === "forward" ? forwardPanel(data.ops[place]) : backwardPanel(data.steps[place]);
  panel.replaceChildren(...frame.filter((item) => item !== null));
  panel.scrollTop = 0;
  document.body.classList.toggle("forward", part === "forward");
  document.querySelector(`input[value=${part}]`).checked = true;
  slider.max = length();
  slider.value = place + 1;
  slider.setAttribute("aria-valuetext", sentence());
  byId("count").textContent = atEnd() ? "the gradients" : `${part === "forward" ? "op" : "step"} ${place + 1} of ${length() - (part === "backward")}`;
  byId("say").textContent = sentence();
  show(mark());
  const wanted = `#${part}=${place + 1}`;
  // In a notebook's frame the page has no address that could tell the step.
  if (location.protocol !== "about:" && location.hash !== wanted) history.replaceState(null, "", wanted);
}

function go(place, part = state.part) {
  Object.assign(state, { place, part });
  draw();
}

// ---- playing

function play(on) {
  clearTimeout(state.timer);
  state.timer = null;
  if (on) {
    if (state.place === length() - 1) go(0, state.part === "forward" ? "backward" : state.part);
    state.timer = setTimeout(tick, PAUSE / byId("speed").value);
  }
  byId("play").textContent = on ? "❚❚ pause" : "▶\ufe0e play";
  byId("play").setAttribute("aria-label", on ? "Pause" : "Play");
}

function tick() {
  if (state.part === "forward" && state.place === length() - 1) go(0, "backward");
  else go(state.place + 1);
  play(state.part === "forward" || state.place < length() - 1);
}

const moves = {
  first: () => go(0),
  back: () => go(state.place - 1),
  next: () => go(state.place + 1),
  last: () => go(length() - 1),
};

/** What a reader does by hand ends the playing. */
function move(name) {
  play(false);
  moves[name]();
}

// ---- what the reader does

for (const name of Object.keys(moves)) byId(name).addEventListener("click", () => move(name));
byId("play").addEventListener("click", () => play(state.timer === null));
byId("speed").addEventListener("change", () => state.timer !== null && play(true));
slider.addEventListener("input", () => {
  play(false);
  go(Number(slider.value) - 1);
});
for (const radio of document.querySelectorAll("input[name=part]")) {
  radio.addEventListener("change", () => {
    play(false);
    go(0, radio.value);
  });
}
function fit(on) {
  byId("fit").checked = on;
  graph.classList.toggle("fit", on);
  show(graph.querySelector(".node.now"));
}
byId("fit").addEventListener("change", (event) => fit(event.target.checked));
graph.addEventListener("click", (event) => {
  const item = event.target.closest(".node");
  if (!item) return;
  const at = (op) => data.vertices[op.vertex] === item.id;
  const place = state.part === "forward" ? data.ops.findIndex(at) : data.steps.findIndex((step) => at(data.ops[step.op]));
  if (place >= 0) {
    play(false);
    go(place);
  }
});

const KEYS = { ArrowLeft: "back", ArrowRight: "next", Home: "first", End: "last" };
document.addEventListener("keydown", (event) => {
  const own = event.target.closest("select, input[type=radio], button, summary, a, input[type=checkbox]");
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === " " && (!own || own.id === "play")) play(state.timer === null);
  else if (event.key in KEYS && !(own && own.matches("select, input[type=radio]"))) move(KEYS[event.key]);
  else return;
  event.preventDefault();
});

function follow() {
  const found = /^#(forward|backward)=(\d+)$/.exec(location.hash);
  if (found) go(Number(found[2]) - 1, found[1]);
  else draw();
}
addEventListener("hashchange", () => {
  play(false);
  follow();
});
turnHeads();
const { width, height } = graph.querySelector("svg").getBoundingClientRect();
fit(Math.min(graph.clientWidth / width, graph.clientHeight / height) >= SMALLEST);
follow();

// A graph that is much wider than tall is above its panel.
const drawn = graph.querySelector("svg").viewBox.baseVal;
document.body.classList.toggle("wide", drawn.width > 1.6 * drawn.height);
