// A graph to explore: what is open is laid out anew, each module's inside on its own.
const [graph, drawing, scene, panel, search] = ["graph", "drawing", "scene", "panel", "search"].map(byId);
const AT_FIRST = 30; // vertices and closed modules shown at first, if modules can be opened to that number
const MANY = 1000; // more are laid out by a worker, and drawn only if in view and large enough to be seen
const SMALLEST = 4; // pixels
const LEGIBLE = 0.8; // a scale at which all text can be read
const FROM_AFAR = 0.2; // below this scale none can, and a page without it moves faster
const HEAD = 6;
const ROUND = 40; // the corners of edges

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
const firsts = new Map();
function firstOf(id) {
  if (order.has(id)) return order.get(id);
  if (!firsts.has(id)) firsts.set(id, Math.min(...children.get(id).map(firstOf)) - 0.5 / (around(id).length + 1));
  return firsts.get(id);
}
for (const inside of children.values()) inside.sort((a, b) => firstOf(a) - firstOf(b));
const state = { open: new Set(), chosen: null, hits: [], hit: -1, scale: 1, x: 0, y: 0, backward: false };
const shown = new Map(); // what is laid out, by id: its place and its size
const elements = new Map(); // what of it is drawn

// ---- which modules are open

/** The vertex itself, or the outermost closed module around it. */
function visible(id) {
  let found = id;
  for (const place of around(id)) if (!state.open.has(place)) found = place;
  return found;
}

/** A formula opens by itself only in a page of formulas; else it stands for the op that ran. */
const opens = (id) => boxes.has(id) && (data.formulas || !boxes.get(id).formula);

function openAtFirst() {
  let level = children.get(null);
  let count = level.length;
  while (level.length) {
    const next = [];
    for (const id of level.filter((item) => opens(item) && !boxes.get(item).long)) {
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

/** What `layOut` needs of a module and of all that is open in it, with the ids of its items. */
function planOf(place) {
  const ids = children.get(place);
  const level = ids.map((id) => (state.open.has(id) ? { ...planOf(id), least: width([titleOf(id), 12]) + 24 } : { size: sizeOf(id) }));
  const at = new Map(ids.map((id, i) => [id, i]));
  return { ids, items: level, edges: [...(edgesOf.get(place) || new Map()).values()].map(({ from, to }) => [at.get(from), at.get(to)]) };
}
const count = (plan) => plan.items.reduce((sum, item) => sum + (item.items ? count(item) : 1), 0);

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

/** The width of a line of text in the reader's own font. */
function width([text, size], bold = false) {
  const key = `${bold ? "bold " : ""}${size}px ${text}`;
  if (!widths.has(key)) {
    pen.font = `${bold ? "bold " : ""}${size}px ${getComputedStyle(document.body).fontFamily}`;
    widths.set(key, pen.measureText(text).width);
  }
  return widths.get(key);
}

const titleOf = (id) => items.get(id).title ?? items.get(id).lines[0][0];
function sizeOf(id) {
  const { lines, size } = items.get(id);
  return [Math.max(size[0], ...lines.map((line, i) => Math.ceil(width(line, i === 0)) + 22)), size[1]];
}

/** The item of a level that holds something. */
function holder(id, level) {
  const path = [id, ...around(id), null];
  return path[path.indexOf(level) - 1];
}

/** For each module the connections between its items, and which of the graph's edges they carry. */
let edgesOf = new Map();
let drawn = [];
function connect() {
  edgesOf = new Map();
  const known = new Map();
  for (const [tail, head, kind, given] of data.edges) {
    const [from, to] = [visible(tail), visible(head)];
    if (from === to) continue;
    const operand = to === head ? given : ""; // an op's operand is not an operand of the closed module around it
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
    const level = around(from).find((id) => around(to).includes(id)) ?? null;
    const [first, last] = [holder(from, level), holder(to, level)];
    const way = `${first} ${last} ${kindHere === "residual" ? "around" : ""}`;
    if (!edgesOf.has(level)) edgesOf.set(level, new Map());
    edgesOf.get(level).set(way, { from: first, to: last });
    known.set(key, { from, to, kind: kindHere, flows, operands: operand ? [operand] : [], level, way });
  }
  drawn = [...known.values()];
}

let turn = 0;
let layOutHere = null;
let worker = null; // null before it is needed; false where a browser starts none, as some do for a page that is a file
const CODE = `const layOut = (${layouter})(); onmessage = ({ data: [turn, plan] }) => postMessage([turn, layOut(plan)]);`;

/** Lay out all open modules, draw them, and then call `then`. The last request counts. */
function draw(then = () => {}) {
  connect();
  const plan = planOf(null);
  const mine = ++turn;
  const done = (laid) => {
    graph.removeAttribute("aria-busy");
    settle(plan, laid);
    then();
    paint();
  };
  const here = () => done((layOutHere ??= layouter())(plan));
  if (count(plan) <= MANY || worker === false) return here();
  graph.setAttribute("aria-busy", true);
  const fall = () => {
    worker = false;
    if (mine === turn) here();
  };
  try {
    worker ??= new Worker(URL.createObjectURL(new Blob([CODE], { type: "text/javascript" })));
    worker.onerror = fall;
    worker.onmessage = ({ data: [asked, laid] }) => asked === turn && done(laid);
    worker.postMessage([mine, plan]);
  } catch {
    fall();
  }
}

/** Note the places of all that was laid out. */
function settle(plan, laid) {
  shown.clear();
  const routes = new Map();
  place(plan, laid, null, 0, 0, routes);
  size = laid;
  for (const edge of drawn) edge.points = pointsOf(edge, routes.get(`${edge.level} ${edge.way}`) || []);
  painted = null;
}
let size = { width: 1, height: 1 };

/** The places of a module's items; x and y are of its upper left corner. */
function place(plan, laid, id, x, y, routes) {
  plan.ids.forEach((item, i) => {
    const at = { ...laid.places[i], x: x + laid.places[i].x, y: y + laid.places[i].y };
    shown.set(item, at);
    if (laid.inner[i]) place(plan.items[i], laid.inner[i], item, at.x, at.y, routes);
  });
  [...(edgesOf.get(id) || new Map()).keys()].forEach((key, i) => {
    routes.set(`${id} ${key}`, laid.routes[i].map((point) => ({ x: x + point.x, y: y + point.y })));
  });
}

// ---- drawing

let painted = null; // the part of a large graph that is drawn, and at which scale

/** The part of the graph in view, with a margin around it, as wide as `margin` windows. */
function view(margin) {
  const { x, y, scale } = state;
  const [wide, high] = [graph.clientWidth, graph.clientHeight];
  const [left, right] = [-x - margin * wide, (1 + margin) * wide - x].map((at) => at / scale);
  const [top, bottom] = [-y - margin * high, (1 + margin) * high - y].map((at) => at / scale);
  return { left, right, top, bottom, scale };
}

function paint() {
  painted = shown.size <= MANY || printing ? null : view(1);
  elements.clear();
  const into = makeSvg("g");
  fill(into, null);
  const edges = drawn.filter((edge) => elements.has(edge.from) || elements.has(edge.to)).flatMap(edgeElements);
  scene.replaceChildren(into, ...edges, ...into.querySelectorAll(".title")); // edges pass under titles
  mark();
}

/** True if a place is near the view, and large enough to be seen. */
function isSeen({ x, y, width, height }) {
  if (painted === null) return true;
  const isNear = x < painted.right && x + width > painted.left && y < painted.bottom && y + height > painted.top;
  return isNear && Math.max(width, height) * painted.scale > SMALLEST;
}

/** Draw the items of a module. */
function fill(into, id) {
  for (const item of children.get(id)) {
    const at = shown.get(item);
    if (!isSeen(at)) continue;
    const open = state.open.has(item);
    const made = open ? boxElement(item, at) : vertexElement(item, at);
    elements.set(item, made);
    into.append(made);
    if (open) fill(made, item);
  }
}

function boxElement(id, { x, y, width, height }) {
  const title = makeSvg("text", { class: "title", x: x + 10, y: y + 16, "data-id": id }, titleOf(id));
  const made = makeSvg("g", { class: `box ${boxes.get(id).formula ? "formula" : ""}`, "data-id": id });
  made.append(makeSvg("rect", { x, y, width, height, rx: 8 }), title);
  return made;
}

function vertexElement(id, { x, y, width, height }) {
  const vertex = vertices.get(id);
  const card = boxes.get(id);
  const kind = card ? (card.formula ? "op formula" : "card") : vertex.kind;
  const round = { "op formula": 9, op: 9, input: height / 2, parameter: 12, card: 2 }[kind] || 3;
  const made = makeSvg("g", { class: `vertex ${kind}`, "data-id": id });
  made.append(makeSvg("title", {}, items.get(id).words), makeSvg("rect", { x, y, width, height, rx: round }));
  if (painted !== null && painted.scale < FROM_AFAR) return made;
  const { lines } = items.get(id);
  const total = lines.reduce((sum, [, points]) => sum + points * 1.25, 0);
  let baseline = y + height / 2 - total / 2;
  for (const [text, points] of lines) {
    baseline += points * 1.25;
    made.append(makeSvg("text", { x: x + width / 2, y: baseline - points * 0.28, "font-size": points }, text));
  }
  return made;
}

const FAR = 150; // something this far from the edge of its box is reached along the side of the box

function pointsOf(edge, route) {
  const [a, b] = [shown.get(edge.from), shown.get(edge.to)];
  const [from, to] = [holder(edge.from, edge.level), holder(edge.to, edge.level)].map((id) => shown.get(id));
  const [start, end] = [a.x + a.width / 2, b.x + b.width / 2];
  const [lower, upper] = [from.y + from.height, to.y];
  let leaving = outer(edge.from) === edge.level ? route.slice(0, 1) : [{ x: start, y: a.y + a.height }];
  if (lower - a.y - a.height >= FAR) leaving = wayAlong(from, a, end, lower);
  let arriving = outer(edge.to) === edge.level ? route.slice(-1) : [{ x: b.x + b.width * (start > end ? 0.8 : 0.2), y: b.y }];
  if (b.y - upper >= FAR) arriving = wayAlong(to, b, start, upper).reverse();
  return [...leaving, ...route.slice(1, -1), ...arriving];
}

function edgeElements({ from, to, kind, flows, operands, points }) {
  const classes = `${kind} ${flows ? "flows" : ""}`;
  const line = makeSvg("path", { class: `edge ${classes}`, d: curve(points), "data-ends": `${from} ${to}` });
  const parts = [line, head(points, classes)];
  if (operands.length) {
    const at = points[points.length - 1];
    parts.push(makeSvg("text", { class: "label", x: at.x, y: at.y - 9 }, operands.join(", ")));
  }
  return parts;
}

/** From something inside a box to the box's lower edge, or to its upper edge, around the items between. */
function wayAlong(box, at, x, y) {
  const right = x > at.x + at.width / 2;
  const side = right ? box.x + box.width - 6 : box.x + 6;
  const middle = at.y + at.height / 2;
  return [{ x: right ? at.x + at.width : at.x, y: middle }, { x: side, y: middle }, { x: side, y }];
}

/** A smooth line through points. */
function curve(points) {
  const near = (here, there) => {
    const length = Math.hypot(there.x - here.x, there.y - here.y) || 1;
    const part = Math.min(0.5, ROUND / length);
    return `${here.x + (there.x - here.x) * part},${here.y + (there.y - here.y) * part}`;
  };
  const corners = points.slice(1, -1).map((here, i) => `L${near(here, points[i])}Q${here.x},${here.y} ${near(here, points[i + 2])}`);
  const [first, last] = [points[0], points[points.length - 1]];
  return `M${first.x},${first.y}${corners.join("")}L${last.x},${last.y}`;
}

/** The head of an arrow: at the end, or, going backward, at the start. */
function head(points, classes) {
  const [tip, from] = state.backward && classes.includes("flows") ? [points[0], points[1]] : points.slice(-2).reverse();
  const angle = Math.atan2(tip.y - from.y, tip.x - from.x);
  const at = (turn) => `${tip.x - HEAD * Math.cos(angle + turn)},${tip.y - HEAD * Math.sin(angle + turn)}`;
  return makeSvg("polygon", { class: `head ${classes}`, points: `${tip.x},${tip.y} ${at(0.45)} ${at(-0.45)}` });
}

// ---- looking around

function transform() {
  if (printing) scene.removeAttribute("transform");
  else scene.setAttribute("transform", `translate(${state.x} ${state.y}) scale(${state.scale})`);
  scene.classList.toggle("afar", state.scale < FROM_AFAR && !printing);
  if (painted !== null && !isPainted()) paint();
}

/** True if all that is in view is drawn, at about this scale. */
function isPainted() {
  const { left, top, right, bottom, scale } = view(0);
  const inside = left >= painted.left && top >= painted.top && right <= painted.right && bottom <= painted.bottom;
  return inside && scale > 0.7 * painted.scale && scale < 1.4 * painted.scale;
}

function zoom(factor, x = graph.clientWidth / 2, y = graph.clientHeight / 2) {
  const scale = Math.min(4, Math.max(Math.min(0.03, state.scale), state.scale * factor));
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
    const middle = graph.clientHeight / 2 - (at.y + at.height / 2) * state.scale;
    state.y = at.height * state.scale < graph.clientHeight ? middle : Math.min(40, middle);
  }
  transform();
}

// ---- choosing

function choose(id) {
  state.chosen = id;
  mark();
  fillPanel();
  if (id === null) return;
  history.replaceState(null, "", `#${id}`);
  const spoken = boxes.has(id) ? `${titleOf(id)}, ${state.open.has(id) ? "open" : "closed"}, ${boxes.get(id).note}` : vertices.get(id).words;
  byId("say").textContent = spoken;
}

function mark() {
  for (const line of scene.querySelectorAll(".edge")) {
    const ends = line.dataset.ends.split(" ");
    line.classList.toggle("near", state.chosen !== null && ends.includes(state.chosen));
  }
  const hits = new Set(state.hits.map(visible));
  for (const [id, made] of elements) {
    made.classList.toggle("chosen", id === state.chosen);
    made.classList.toggle("hit", hits.has(id));
  }
}

/** Rows for what a vertex, or the inside of a module, reads, and for what reads it. */
function neighbours(id) {
  const isInside = (one) => one === id || (boxes.has(id) && around(one).includes(id));
  const [reads, readBy] = [[], []];
  for (const [tail, head, , operand, label] of data.edges) {
    const [from, to] = [isInside(tail), isInside(head)];
    if (to && !from) reads.push([operand ? `reads as ${operand}` : "reads", [titleOf(tail), label].filter((text) => text).join(", "), tail]);
    if (from && !to) readBy.push(["read by", titleOf(head), head]);
  }
  return [...reads, ...readBy];
}

function fillPanel() {
  const id = state.chosen;
  if (id === null) {
    const help = "Click a vertex to see its shapes, its values and its line of code; a module to open it.";
    return panel.replaceChildren(make("h2", {}, "Nothing selected"), make("p", {}, help));
  }
  const item = items.get(id);
  const list = make("dl", {});
  const place = outer(id) === null ? [] : [["module", boxes.get(outer(id)).path, outer(id)]];
  const rows = [item.rows[0], ...place, ...neighbours(id), ...item.rows.slice(1)];
  if (state.backward) rows.sort((a, b) => (b[0] === "gradient") - (a[0] === "gradient"));
  for (const [name, text, to] of rows) {
    const value = make("dd", name === "gradient" ? { class: "gradient" } : {});
    value.append(to === undefined ? text : make("a", { href: `#${to}` }, text));
    list.append(make("dt", {}, name), value);
  }
  const parts = [make("h2", {}, titleOf(id)), list];
  if (boxes.has(id)) parts.push(make("button", { id: "toggle" }, state.open.has(id) ? "close it" : "open it"));
  panel.replaceChildren(...parts);
}

/** Open or close a module, which stays where it is. */
function toggle(id) {
  const before = shown.get(id);
  const at = before && { x: state.x + before.x * state.scale, y: state.y + before.y * state.scale };
  if (state.open.has(id)) state.open.delete(id);
  else state.open.add(id);
  draw(() => {
    const now = shown.get(id);
    if (at && now) {
      state.x = at.x - now.x * state.scale;
      state.y = at.y - now.y * state.scale;
    }
    transform();
    choose(id);
  });
}

/** Open all that hides something, and go there. */
function goTo(id) {
  const closed = around(id).filter((place) => !state.open.has(place));
  closed.forEach((place) => state.open.add(place));
  if (closed.length) draw(() => arrive(id));
  else arrive(id);
}

function arrive(id) {
  choose(id);
  reveal(id);
}

// ---- search

/** The text by which something is found; what is inside of a formula has the formula's line of code, and is not found by it. */
function textOf(id) {
  const { words, path, lines } = items.get(id);
  const inFormula = around(id).some((place) => boxes.get(place).formula);
  return [inFormula ? "" : words, path, ...lines.map(([text]) => text)].join(" ").toLowerCase();
}
const texts = new Map([...items.keys()].sort((a, b) => firstOf(a) - firstOf(b)).map((id) => [id, textOf(id)]));

function look() {
  const wanted = search.value.trim().toLowerCase();
  state.hits = wanted ? [...texts.keys()].filter((id) => texts.get(id).includes(wanted)) : [];
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
  arrive(all[now < 0 ? 0 : Math.min(Math.max(now + step, 0), all.length - 1)]);
}

function follow(end) {
  const edge = drawn.find((one) => (end === "to" ? one.from : one.to) === state.chosen);
  if (edge) arrive(edge[end]);
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
function wheel(event) {
  event.preventDefault();
  const box = graph.getBoundingClientRect();
  zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.x, event.clientY - box.y);
}
graph.addEventListener("wheel", wheel, { passive: false });

function openOnly(ids) {
  state.open = new Set(ids);
  draw(atFirst);
}
byId("open").addEventListener("click", () => openOnly([...boxes.keys()].filter(opens)));
byId("close").addEventListener("click", () => openOnly([]));
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
    paint();
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

// ---- on paper

let printing = false;

/** The whole graph as wide as the page, or again the part in view of the window. */
function forPaper(on) {
  printing = on;
  if (on) drawing.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  else drawing.removeAttribute("viewBox");
  drawing.style.maxWidth = on ? `${size.width}px` : "";
  transform();
  paint();
}
addEventListener("beforeprint", () => forPaper(true));
addEventListener("afterprint", () => forPaper(false));

openAtFirst();
draw(() => {
  atFirst();
  choose(null);
  fromHash();
  // once it is painted: milliseconds since the page was asked for
  queueMicrotask(() => (document.documentElement.dataset.ready = performance.now().toFixed(0)));
});
