// A graph to explore: what is open is laid out anew, each module's inside on its own.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const [graph, drawing, scene, panel, search] = ["graph", "drawing", "scene", "panel", "search"].map(byId);
const SVG = "http://www.w3.org/2000/svg";
const AT_FIRST = 30; // so many vertices and closed modules are shown at first, if modules can be opened so far
const LEGIBLE = 0.8; // a scale at which all text can be read
const FROM_AFAR = 0.2; // below this scale none can, and a page without it moves faster
const PAD = 12;
const TITLE = 22; // the height of a box's title
const HEAD = 6;
const GAPS = { nodesep: 18, ranksep: 26, edgesep: 10, marginx: 0, marginy: 0, rankdir: "TB" };

const vertices = new Map(data.vertices.map((v) => [v.id, v]));
const boxes = new Map(data.boxes.map((b) => [b.id, b]));
const items = new Map([...vertices, ...boxes]);
const order = new Map(data.vertices.map((v, i) => [v.id, i]));
const children = new Map([[null, []], ...data.boxes.map((b) => [b.id, []])]);
for (const box of data.boxes) children.get(box.parent).push(box.id);
for (const vertex of data.vertices) children.get(vertex.box).push(vertex.id);
const outer = (id) => (boxes.has(id) ? boxes.get(id).parent : vertices.get(id).box);
const around = (id) => {
  const found = [];
  for (let place = outer(id); place !== null; place = outer(place)) found.push(place);
  return found;
};
const state = { open: new Set(), chosen: null, hits: [], hit: -1, scale: 1, x: 0, y: 0, backward: false };
const shown = new Map(); // what is drawn, by id: its element, its place and its size

// ---- which modules are open

/** The vertex itself, or the outermost closed module around it. */
function visible(id) {
  let found = id;
  for (const place of around(id)) if (!state.open.has(place)) found = place;
  return found;
}

function openAtFirst() {
  let level = [...children.get(null)];
  let count = level.length;
  while (level.length) {
    const next = [];
    for (const id of level.filter((item) => boxes.has(item))) {
      const inside = children.get(id);
      if (count + inside.length - 1 > AT_FIRST && state.open.size) continue;
      state.open.add(id);
      count += inside.length - 1;
      next.push(...inside);
    }
    level = next;
  }
}

// ---- layout

/** The inside of a module: places of its items, and the points of what connects them. */
function layOut(place) {
  const level = new dagre.graphlib.Graph({ multigraph: true });
  level.setGraph({ ...GAPS });
  const inner = new Map();
  for (const id of [...children.get(place)].sort((a, b) => firstOf(a) - firstOf(b))) {
    if (state.open.has(id)) inner.set(id, layOut(id));
    const [width, height] = sizeOf(id, inner.get(id));
    level.setNode(id, { width, height });
  }
  for (const [key, edge] of edgesOf.get(place) || []) level.setEdge(edge.from, edge.to, {}, key);
  if (level.nodeCount()) dagre.layout(level);
  firstToTheLeft(level);
  const { width = 0, height = 0 } = level.graph();
  return { level, inner, width: Math.max(width, 0) + 2 * PAD, height: Math.max(height, 0) + TITLE + 2 * PAD };
}

/** Mirror a layout, which is as good, where that brings what the first row computes first to the left. */
function firstToTheLeft(level) {
  const rows = new Map();
  for (const id of level.nodes()) rows.set(level.node(id).y, [...(rows.get(level.node(id).y) || []), id]);
  const row = [...rows].sort((a, b) => a[0] - b[0]).find(([, ids]) => ids.length > 1)?.[1] || [];
  row.sort((a, b) => level.node(a).x - level.node(b).x);
  if (!row.length || firstOf(row[0]) <= firstOf(row[row.length - 1])) return;
  const { width } = level.graph();
  for (const id of level.nodes()) level.node(id).x = width - level.node(id).x;
  for (const edge of level.edges()) for (const point of level.edge(edge).points) point.x = width - point.x;
}

function sizeOf(id, inside) {
  if (inside) return [Math.max(inside.width, 7 * titleOf(boxes.get(id)).length + 24), inside.height];
  return boxes.has(id) ? cardSize(boxes.get(id)) : vertices.get(id).size;
}

const titleOf = (box) => (box.name ? `${box.name} · ${box.title}` : box.title);
const cardLines = (box) => [
  [box.title, 13],
  [[box.name, box.note].filter((text) => text).join(" · "), 10],
];
const cardSize = (box) => [Math.max(...cardLines(box).map(([text, size]) => text.length * size * 0.6)) + 24, 42];

/** For each module the connections between its items, and which of the graph's edges they carry. */
let edgesOf = new Map();
let drawn = [];
function connect() {
  edgesOf = new Map();
  const known = new Map();
  for (const [tail, head, kind, operand, label] of data.edges) {
    const [from, to] = [visible(tail), visible(head)];
    if (from === to && kind !== "loop") continue;
    const closed = boxes.has(from) || boxes.has(to); // then nothing is seen that a residual goes around
    const kindHere = kind === "residual" && closed ? "data" : kind;
    const key = `${from} ${to} ${kindHere}`;
    const flows = vertices.get(tail).flows;
    if (known.has(key)) {
      const edge = known.get(key);
      if (operand && !edge.operands.includes(operand)) edge.operands.push(operand);
      edge.flows ||= flows;
      continue;
    }
    known.set(key, { from, to, kind: kindHere, flows, label, operands: operand ? [operand] : [] });
  }
  drawn = [...known.values()];
  for (const edge of drawn) {
    const [a, b] = [[edge.from, ...around(edge.from)], [edge.to, ...around(edge.to)]];
    const common = a.find((id) => b.includes(id)) ?? null;
    const below = (path) => path[path.indexOf(common) - 1] ?? path[path.length - 1];
    const [from, to] = common === null ? [a[a.length - 1], b[b.length - 1]] : [below(a), below(b)];
    if (edge.kind === "loop" || from === to) continue;
    edge.level = common;
    edge.key = `${from} ${to} ${edge.kind === "residual" ? "around" : ""}`;
    if (!edgesOf.has(common)) edgesOf.set(common, new Map());
    edgesOf.get(common).set(edge.key, { from, to });
  }
}

// ---- drawing

function element(tag, attributes = {}, ...inside) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

function draw() {
  connect();
  const whole = layOut(null);
  shown.clear();
  const routes = new Map();
  const into = element("g");
  place(whole, null, -PAD, -TITLE - PAD, into, routes);
  scene.replaceChildren(into, ...edgeElements(routes), ...into.querySelectorAll(".title")); // edges pass under titles
  size.width = whole.width - 2 * PAD;
  size.height = whole.height - TITLE - 2 * PAD;
  mark();
}
const size = { width: 1, height: 1 };

/** Draw a laid out module's items; x and y are of its upper left corner. */
function place(laid, id, x, y, into, routes) {
  const [left, top] = [x + PAD, y + TITLE + PAD];
  for (const item of laid.level.nodes()) {
    const node = laid.level.node(item);
    const [cx, cy] = [left + node.x, top + node.y];
    const box = { x: cx - node.width / 2, y: cy - node.height / 2, width: node.width, height: node.height };
    if (laid.inner.has(item)) {
      const made = boxElement(boxes.get(item), box);
      into.append(made);
      shown.set(item, { ...box, element: made });
      place(laid.inner.get(item), item, box.x, box.y, made, routes);
    } else {
      const made = vertexElement(item, box);
      into.append(made);
      shown.set(item, { ...box, element: made });
    }
  }
  for (const edge of laid.level.edges()) {
    routes.set(
      `${id} ${edge.name}`,
      laid.level.edge(edge).points.map((point) => ({ x: left + point.x, y: top + point.y })),
    );
  }
}

function boxElement(box, { x, y, width, height }) {
  const title = element("text", { class: "title", x: x + 10, y: y + 16, "data-id": box.id }, titleOf(box));
  const made = element("g", { class: `box ${box.formula ? "formula" : ""}`, "data-id": box.id });
  made.append(element("rect", { x, y, width, height, rx: 8 }), title);
  return made;
}

function vertexElement(id, { x, y, width, height }) {
  const vertex = vertices.get(id);
  const card = boxes.get(id);
  const kind = card ? `card ${card.formula ? "formula" : ""}` : vertex.kind;
  const round = card ? 2 : { op: 9, input: height / 2, parameter: 12 }[vertex.kind] || 3;
  const made = element("g", { class: `vertex ${kind}`, "data-id": id });
  const lines = card ? cardLines(card) : vertex.lines;
  const total = lines.reduce((sum, [, points]) => sum + points * 1.25, 0);
  let baseline = y + height / 2 - total / 2;
  made.append(element("title", {}, card ? card.path : vertex.words), element("rect", { x, y, width, height, rx: round }));
  for (const [text, points] of lines) {
    baseline += points * 1.25;
    made.append(element("text", { x: x + width / 2, y: baseline - points * 0.28, "font-size": points }, text));
  }
  return made;
}

function edgeElements(routes) {
  return drawn.flatMap((edge) => {
    const [a, b] = [shown.get(edge.from), shown.get(edge.to)];
    const start = { x: a.x + a.width / 2, y: a.y + a.height };
    const end = { x: b.x + b.width / 2, y: b.y };
    let points;
    if (edge.kind === "loop") {
      const side = Math.max(a.x + a.width, b.x + b.width) + 16;
      points = [{ x: a.x + a.width, y: a.y + a.height / 2 }, { x: side, y: a.y + a.height / 2 }];
      points.push({ x: side, y: b.y + b.height / 2 - 8 }, { x: b.x + b.width, y: b.y + b.height / 2 - 8 });
    } else {
      const route = routes.get(`${edge.level} ${edge.key}`) || [];
      const leaving = outer(edge.from) === edge.level ? route.slice(0, 1) : wayOut(edge, a, start, end);
      const arriving = outer(edge.to) === edge.level ? route.slice(-1) : wayIn(edge, b, start, end);
      points = [...leaving, ...route.slice(1, -1), ...arriving];
    }
    const classes = `${edge.kind} ${edge.flows ? "flows" : ""}`;
    const line = element("path", { class: `edge ${classes}`, d: curve(points), "data-ends": `${edge.from} ${edge.to}` });
    const parts = [line, head(points, classes)];
    if (edge.operands.length) {
      const at = points[points.length - 1];
      parts.push(element("text", { class: "label", x: at.x, y: at.y - 9 }, edge.operands.join(", ")));
    }
    return parts;
  });
}

const FAR = 150; // something this far from the edge of its box is reached along the side of the box

/** The item of the level in which an edge is laid out that holds one of its ends. */
function holder(id, level) {
  const path = [id, ...around(id)];
  return shown.get(path[path.indexOf(level) - 1] ?? path[path.length - 1]);
}

/** From something inside a box to the lower edge of the box, past what stands below it. */
function wayOut(edge, from, start, end) {
  const box = holder(edge.from, edge.level);
  if (box.y + box.height - start.y < FAR) return [start];
  const right = end.x > from.x + from.width / 2;
  const side = right ? box.x + box.width - 6 : box.x + 6;
  const middle = from.y + from.height / 2;
  return [{ x: right ? from.x + from.width : from.x, y: middle }, { x: side, y: middle }, { x: side, y: box.y + box.height }];
}

/** From the upper edge of a box to something inside, past what stands above it. */
function wayIn(edge, to, start, end) {
  const box = holder(edge.to, edge.level);
  const right = start.x > to.x + to.width / 2;
  if (end.y - box.y < FAR) return [{ x: to.x + to.width * (right ? 0.8 : 0.2), y: end.y }];
  const side = right ? box.x + box.width - 6 : box.x + 6;
  const middle = to.y + to.height / 2;
  return [{ x: side, y: box.y }, { x: side, y: middle }, { x: right ? to.x + to.width : to.x, y: middle }];
}

/** A smooth line through points. */
function curve(points) {
  if (points.length === 2) {
    const [a, b] = points;
    const middle = (a.y + b.y) / 2;
    return `M${a.x},${a.y}C${a.x},${middle} ${b.x},${middle} ${b.x},${b.y}`;
  }
  let path = `M${points[0].x},${points[0].y}`;
  for (let i = 1; i < points.length - 1; i++) {
    const [here, next] = [points[i], points[i + 1]];
    const last = i === points.length - 2;
    const to = last ? next : { x: (here.x + next.x) / 2, y: (here.y + next.y) / 2 };
    path += `Q${here.x},${here.y} ${to.x},${to.y}`;
  }
  return path;
}

/** The head of an arrow: at the end, or, going backward, at the start. */
function head(points, classes) {
  const [tip, from] = state.backward && classes.includes("flows") ? [points[0], points[1]] : points.slice(-2).reverse();
  const angle = Math.atan2(tip.y - from.y, tip.x - from.x);
  const at = (turn) => `${tip.x - HEAD * Math.cos(angle + turn)},${tip.y - HEAD * Math.sin(angle + turn)}`;
  return element("polygon", { class: `head ${classes}`, points: `${tip.x},${tip.y} ${at(0.45)} ${at(-0.45)}` });
}

// ---- looking around

function transform() {
  scene.setAttribute("transform", `translate(${state.x} ${state.y}) scale(${state.scale})`);
  scene.classList.toggle("afar", state.scale < FROM_AFAR);
}

function zoom(factor, x = graph.clientWidth / 2, y = graph.clientHeight / 2) {
  const scale = Math.min(4, Math.max(0.03, state.scale * factor));
  state.x = x - ((x - state.x) * scale) / state.scale;
  state.y = y - ((y - state.y) * scale) / state.scale;
  state.scale = scale;
  transform();
}

function fit() {
  const [width, height] = [graph.clientWidth, graph.clientHeight];
  state.scale = Math.min(1.4, (width - 30) / size.width, (height - 30) / size.height);
  state.x = (width - size.width * state.scale) / 2;
  state.y = (height - size.height * state.scale) / 2;
  transform();
}

/** Bring something into the middle, unless it is in view and large enough to be read. */
function reveal(id) {
  const at = shown.get(id);
  if (!at) return;
  if (state.scale < 0.6) state.scale = 0.9;
  const [left, top] = [state.x + at.x * state.scale, state.y + at.y * state.scale];
  const right = left + at.width * state.scale;
  const bottom = top + at.height * state.scale;
  if (left < 8 || top < 8 || right > graph.clientWidth - 8 || bottom > graph.clientHeight - 8) {
    state.x = graph.clientWidth / 2 - (at.x + at.width / 2) * state.scale;
    state.y = Math.min(40, graph.clientHeight / 2 - (at.y + at.height / 2) * state.scale);
    if (at.height * state.scale < graph.clientHeight) {
      state.y = graph.clientHeight / 2 - (at.y + at.height / 2) * state.scale;
    }
  }
  transform();
}

// ---- choosing

function choose(id, say = true) {
  state.chosen = id;
  mark();
  fillPanel();
  if (id === null) return;
  history.replaceState(null, "", `#${id}`);
  if (say) byId("say").textContent = spoken(id);
}

function spoken(id) {
  const box = boxes.get(id);
  if (!box) return vertices.get(id).words;
  return `${titleOf(box)}, ${state.open.has(id) ? "open" : "closed"}, ${box.note}`;
}

function mark() {
  const near = new Set();
  for (const line of scene.querySelectorAll(".edge")) {
    const ends = line.dataset.ends.split(" ");
    const touches = state.chosen !== null && ends.includes(state.chosen);
    line.classList.toggle("near", touches);
    if (touches) ends.forEach((end) => near.add(end));
  }
  const hits = new Set(state.hits.map(visible));
  for (const [id, { element: made }] of shown) {
    made.classList.toggle("chosen", id === state.chosen);
    made.classList.toggle("hit", hits.has(id));
  }
}

function html(tag, attributes, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

function fillPanel() {
  const id = state.chosen;
  if (id === null) {
    panel.replaceChildren(
      html("h2", {}, "Nothing selected"),
      html("p", {}, "Click a vertex to see its shapes, its values and its line of code; a module to open it."),
    );
    return;
  }
  const item = items.get(id);
  const title = boxes.has(id) ? titleOf(item) : item.lines[0][0];
  const list = html("dl", {});
  const rows = state.backward ? [...item.rows].sort((a, b) => (b[0] === "gradient") - (a[0] === "gradient")) : item.rows;
  for (const [name, text, to] of rows) {
    const value = html("dd", name === "gradient" ? { class: "gradient" } : {});
    value.append(to === undefined ? text : html("a", { href: `#${to}` }, text));
    list.append(html("dt", {}, name), value);
  }
  const parts = [html("h2", {}, title), list];
  if (boxes.has(id)) parts.push(html("button", { id: "toggle" }, state.open.has(id) ? "close it" : "open it"));
  panel.replaceChildren(...parts);
}

/** Open or close a module, which stays where it is. */
function toggle(id) {
  const before = shown.get(id);
  const at = before && { x: state.x + before.x * state.scale, y: state.y + before.y * state.scale };
  if (state.open.has(id)) state.open.delete(id);
  else state.open.add(id);
  draw();
  const now = shown.get(id);
  if (at && now) {
    state.x = at.x - now.x * state.scale;
    state.y = at.y - now.y * state.scale;
  }
  transform();
  choose(id);
}

/** Open all that hides something, and go there. */
function goTo(id) {
  const closed = around(id).filter((place) => !state.open.has(place));
  closed.forEach((place) => state.open.add(place));
  if (closed.length) draw();
  choose(id);
  reveal(id);
}

// ---- search

function textOf(item) {
  return [item.words, item.path, item.title, item.name, ...(item.lines || []).map(([text]) => text)].join(" ").toLowerCase();
}
const texts = new Map([...items].map(([id, item]) => [id, textOf(item)]));

function look() {
  const wanted = search.value.trim().toLowerCase();
  state.hits = wanted ? [...items.keys()].filter((id) => texts.get(id).includes(wanted)) : [];
  state.hit = -1;
  byId("hits").textContent = wanted ? `${state.hits.length} found` : "";
  mark();
}

function next(step) {
  if (!state.hits.length) return;
  state.hit = (state.hit + step + state.hits.length) % state.hits.length;
  byId("hits").textContent = `${state.hit + 1} of ${state.hits.length}`;
  goTo(state.hits[state.hit]);
}

// ---- walking by keyboard

function walk(step) {
  const all = [...shown.keys()].sort((a, b) => firstOf(a) - firstOf(b));
  const now = all.indexOf(state.chosen);
  const to = all[now < 0 ? 0 : Math.min(Math.max(now + step, 0), all.length - 1)];
  choose(to);
  reveal(to);
}
const firsts = new Map();
function firstOf(id) {
  if (order.has(id)) return order.get(id);
  if (!firsts.has(id)) firsts.set(id, Math.min(...children.get(id).map(firstOf)) - 0.5 / (around(id).length + 1));
  return firsts.get(id);
}

function follow(end) {
  const edge = drawn.find((one) => (end === "to" ? one.from : one.to) === state.chosen);
  if (!edge) return;
  choose(edge[end]);
  reveal(edge[end]);
}

const KEYS = {
  ArrowDown: () => walk(1),
  ArrowUp: () => walk(-1),
  ArrowRight: () => follow("to"),
  ArrowLeft: () => follow("from"),
  Enter: () => boxes.has(state.chosen) && toggle(state.chosen),
  Escape: () => choose(null),
  "+": () => zoom(1.25),
  "-": () => zoom(0.8),
  0: fit,
};

graph.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  event.preventDefault();
  KEYS[event.key]();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== search) {
    event.preventDefault();
    search.focus();
  }
});
search.addEventListener("input", look);
search.addEventListener("keydown", (event) => {
  if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
  if (event.key === "Escape") {
    search.value = "";
    look();
    graph.focus();
  }
});

// ---- by mouse and touch

const fingers = new Map();
let moved = 0;
graph.addEventListener("pointerdown", (event) => {
  fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  moved = 0;
});
graph.addEventListener("pointermove", (event) => {
  const before = fingers.get(event.pointerId);
  if (!before) return;
  const [dx, dy] = [event.clientX - before.x, event.clientY - before.y];
  moved += Math.abs(dx) + Math.abs(dy);
  if (fingers.size === 1 && moved > 3) {
    graph.classList.add("moving");
    graph.setPointerCapture(event.pointerId);
    state.x += dx;
    state.y += dy;
    transform();
  } else if (fingers.size === 2) {
    const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
    const length = (point) => Math.hypot(point.x - other.x, point.y - other.y);
    const box = graph.getBoundingClientRect();
    zoom(length({ x: event.clientX, y: event.clientY }) / length(before), other.x - box.x, other.y - box.y);
  }
  fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
});
for (const end of ["pointerup", "pointercancel"]) {
  graph.addEventListener(end, (event) => {
    fingers.delete(event.pointerId);
    graph.classList.remove("moving");
  });
}
graph.addEventListener("click", (event) => {
  if (moved > 3) return;
  const found = event.target.closest("[data-id]");
  if (!found) return choose(null);
  const id = found.dataset.id;
  const isTitle = event.target.classList.contains("title");
  if (boxes.has(id) && (!state.open.has(id) || isTitle)) toggle(id);
  else choose(id);
});
graph.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const box = graph.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.x, event.clientY - box.y);
  },
  { passive: false },
);

byId("open").addEventListener("click", () => {
  data.boxes.forEach((box) => state.open.add(box.id));
  draw();
  fit();
});
byId("close").addEventListener("click", () => {
  state.open.clear();
  draw();
  fit();
});
byId("in").addEventListener("click", () => zoom(1.25));
byId("out").addEventListener("click", () => zoom(0.8));
byId("fit").addEventListener("click", fit);
panel.addEventListener("click", (event) => {
  if (event.target.id === "toggle") toggle(state.chosen);
});
for (const choice of document.querySelectorAll("input[name=pass]")) {
  choice.addEventListener("change", () => {
    state.backward = choice.value === "backward";
    document.body.classList.toggle("backward", state.backward);
    draw();
    fillPanel();
  });
}
document.querySelector("input[value=backward]").disabled = !data.gradients;
const fromHash = () => {
  const id = location.hash.slice(1);
  if (items.has(id) && id !== state.chosen) goTo(id);
};
addEventListener("hashchange", fromHash);
let touched = false;
for (const kind of ["pointerdown", "wheel", "keydown"]) graph.addEventListener(kind, () => (touched = true), { passive: true });
addEventListener("resize", () => touched || atFirst());

/** The whole graph if it can be read, or else its beginning. */
function atFirst() {
  fit();
  if (state.scale >= LEGIBLE) return;
  state.scale = Math.min(LEGIBLE, Math.max(state.scale, (graph.clientWidth - 30) / size.width));
  state.x = (graph.clientWidth - size.width * state.scale) / 2;
  state.y = 15;
  transform();
}

openAtFirst();
draw();
atFirst();
choose(null);
fromHash();
document.documentElement.dataset.ready = performance.now().toFixed(0); // milliseconds since the page was asked for
