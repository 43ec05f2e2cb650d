// Attention to look around in: tokens with lines between them, or a heat map; by mouse or by keyboard.
const [viewSelect, layerSelect, headSelect] = ["view", "layer", "head"].map(byId);
const strands = byId("strands");
const canvas = byId("cells");
const FULL = 10000; // weights are whole numbers of ten-thousandths, and -1 where the mask hides
const FAINT = 200;
const MOST_LINES = 4000;

const state = { view: 0, layer: 0, head: -1, picture: "lines", hovered: null, focused: null, pinned: null, cell: [0, 0] };
state.out = new Set(); // heads that the reader put out by their tiles

const view = () => data.views[state.view];
const layer = () => view().layers[state.layer];
const every = () => layer().heads.map((_, h) => h);
const heads = () => (state.head < 0 ? every().filter((h) => !state.out.has(h)) : [state.head]);
const active = () => state.focused || state.pinned || state.hovered;
const same = (a, b) => a !== null && b !== null && a.side === b.side && a.index === b.index;
const isolated = (text) => `\u2068${text}\u2069`;
const signed = (x) => x.toFixed(3).replace("-", "−");
const colour = (h) => `var(--head-${h % data.series})`;

/** The mean weight over the heads that are shown, from 0 to 1; -1 where the mask hides. */
function weight(i, j) {
  const values = heads().map((h) => layer().heads[h][i][j]);
  if (values.every((w) => w < 0)) return -1;
  return values.reduce((sum, w) => sum + Math.max(w, 0), 0) / values.length / FULL;
}

function fillSelects() {
  options(viewSelect, data.views.map((v, i) => [i, v.name]), state.view);
  options(layerSelect, view().layers.map((l, i) => [i, l.name ? `${i}: ${l.name}` : `${i}`]), state.layer);
  options(headSelect, [[-1, "all"], ...layer().heads.map((_, h) => [h, `${h}`])], state.head);
}

function fillTokens() {
  const longest = Math.max(view().source.length, view().target.length);
  const row = longest <= 24 ? 26 : longest <= 60 ? 20 : 15;
  document.documentElement.style.setProperty("--row", `${row}px`);
  document.documentElement.style.setProperty("--size", `${Math.min(14, row * 0.72)}px`);
  for (const [side, tokens] of [["query", view().target], ["key", view().source]]) {
    byId(side).replaceChildren(
      ...tokens.map((token, index) => {
        const places = { "data-side": side, "data-index": index, tabindex: index === 0 ? 0 : -1 };
        return make("li", { role: "option", title: token, ...places }, make("bdi", {}, token));
      }),
    );
  }
  strands.setAttribute("viewBox", `0 0 320 ${longest * row}`);
  strands.setAttribute("height", longest * row);
  byId("sentence").textContent = byId("sentence").title = sentence();
}

/** What was read and what was written, in the words of the tokens. */
function sentence() {
  const { source, target } = view();
  const joined = (tokens) => isolated(tokens.join(tokens.every((t) => [...t].length === 1) ? "" : " "));
  const alike = source.join("\n") === target.join("\n");
  return alike ? joined(source) : `${joined(source)} → ${joined(target)}`;
}

function drawLines() {
  const chosen = active();
  const row = parseFloat(document.documentElement.style.getPropertyValue("--row"));
  let found = [];
  for (const h of heads()) {
    layer().heads[h].forEach((weights, i) => {
      if (chosen && chosen.side === "query" && chosen.index !== i) return;
      weights.forEach((w, j) => {
        if (w < FAINT || (chosen && chosen.side === "key" && chosen.index !== j)) return;
        found.push([w, h, i, j]);
      });
    });
  }
  if (found.length > MOST_LINES) found = found.sort((a, b) => b[0] - a[0]).slice(0, MOST_LINES);
  const all = heads();
  const apart = Math.min((row * 0.75) / Math.max(all.length - 1, 1), 6); // so that no head's line covers another's
  const thick = all.length > 1 ? Math.min(2, Math.max(apart, 0.8)) : 2;
  strands.replaceChildren(
    ...found.map(([w, h, i, j]) => {
      const up = (all.indexOf(h) - (all.length - 1) / 2) * apart;
      const ends = { x1: 0, y1: (i + 0.5) * row + up, x2: 320, y2: (j + 0.5) * row + up, "stroke-opacity": w / FULL };
      const style = `stroke: ${colour(h)}; stroke-width: ${thick * (0.4 + (0.6 * w) / FULL)}`;
      return makeSvg("line", { ...ends, style });
    }),
  );
  for (const item of document.querySelectorAll("li")) {
    const token = placeOf(item);
    const others = chosen && chosen.side !== token.side;
    const pair = chosen && (chosen.side === "query" ? [chosen.index, token.index] : [token.index, chosen.index]);
    item.style.setProperty("--weight", (0.75 * (others ? Math.max(0, weight(...pair)) : 0)).toFixed(4));
    showColumns(item, others ? pair : null);
    item.classList.toggle("active", same(token, chosen));
    item.setAttribute("aria-selected", same(token, state.pinned));
  }
  fillTiles();
}

/** Beside a token a square for each head, as strong as the head's weight between it and the chosen one. */
function showColumns(item, pair) {
  item.querySelector(".squares")?.remove();
  if (pair === null || heads().length < 2) return;
  const [i, j] = pair;
  const opacity = (h) => Math.max(0, layer().heads[h][i][j]) / FULL;
  const squares = heads().map((h) => make("i", { style: `background: ${colour(h)}; opacity: ${opacity(h)}` }));
  item.append(make("span", { class: "squares" }, ...squares));
}

/** A tile for each head, which puts it in or out. */
function fillTiles() {
  const tiles = every().map((h) =>
    make("button", { class: "tile", "data-head": h, "aria-pressed": heads().includes(h) }, sample(colour(h), `head ${h}`)),
  );
  const focused = document.activeElement && document.activeElement.dataset.head;
  byId("legend").replaceChildren(...(every().length > 1 ? tiles : [sample(colour(0), "head 0")]));
  if (focused !== undefined && tiles[focused]) tiles[focused].focus();
}

// ---- the overview: a small map for each layer and head

function drawOverview() {
  const most = Math.max(...view().layers.map((one) => one.heads.length));
  const columns = `grid-template-columns: max-content repeat(${most}, minmax(24px, 96px))`;
  const table = make("div", { class: "thumbnails", style: columns }, make("span", {}, "head"));
  table.append(...Array.from({ length: most }, (_, h) => make("span", {}, h)));
  view().layers.forEach((one, l) => {
    table.append(make("span", { title: one.name }, `layer ${l}`));
    for (let h = 0; h < most; h++) table.append(h < one.heads.length ? thumbnail(one, l, h) : make("span"));
  });
  byId("overview").replaceChildren(table);
  byId("legend").replaceChildren(scale());
}

function thumbnail(one, l, h) {
  const map = smallMap(one.heads[h], (w) => shade(w / FULL));
  const button = make("button", { class: "thumbnail", "aria-label": `layer ${l}, head ${h}` }, map);
  button.addEventListener("click", () => {
    document.querySelector("input[value=map]").checked = true;
    show({ layer: l, head: h, picture: "map", pinned: null });
    canvas.focus();
  });
  return button;
}

// ---- one query in numbers

function drawNumbers() {
  const { source, target } = view();
  const chosen = active();
  const i = chosen && chosen.side === "query" ? chosen.index : state.picture === "numbers" ? state.query || 0 : 0;
  state.query = Math.min(i, target.length - 1);
  const h = heads()[0] ?? 0;
  const one = layer();
  const known = one.query !== undefined;
  const table = make("table");
  const size = known ? one.query[h][0].length : 0;
  const steps = known ? [`q · k, element by element (d = ${size})`, "q · k", one.scaled, "softmax"] : ["weight"];
  table.append(row("th", ["key", ...steps]));
  source.forEach((token, j) => {
    const w = one.heads[h][state.query][j];
    if (!known) return table.append(row("td", [isolated(token), bar(w)]));
    const [q, k] = [one.query[h][state.query], one.key[h][j]];
    const products = q.map((x, n) => x * k[n]);
    const score = products.reduce((sum, x) => sum + x, 0);
    const scaled = w < 0 ? "hidden → −∞" : signed(score * one.scale);
    table.append(row("td", [isolated(token), strip(products), signed(score), scaled, bar(w)]));
  });
  const choice = make("select", { "aria-label": "Query" });
  target.forEach((token, n) => choice.append(new Option(`${n}: ${token}`, n, false, n === state.query)));
  choice.addEventListener("change", () => {
    state.pinned = null;
    state.query = Number(choice.value);
    draw();
    document.querySelector("#numbers select").focus();
  });
  byId("numbers").replaceChildren(make("label", {}, "Query ", choice, ` in head ${h}`), table);
  byId("legend").replaceChildren();
}

const row = (tag, cells) => make("tr", {}, ...cells.map((cell) => make(tag, {}, cell)));

/** Products as small cells: warm above 0, cold below. */
function strip(products) {
  const largest = Math.max(...products.map(Math.abs), 1e-9);
  const style = (x) => `background: var(${x < 0 ? "--cold" : "--warm"}); opacity: ${Math.abs(x) / largest}`;
  const cells = products.map((x) => make("i", { style: style(x) }));
  return make("span", { class: "strip", title: products.map(signed).join("  ") }, ...cells);
}

function bar(w) {
  const style = `--share: ${(100 * Math.max(w, 0)) / FULL}%`;
  return make("span", { class: "bar", style }, w < 0 ? "masked" : (w / FULL).toFixed(4));
}

function frame() {
  const { source, target } = view();
  const cell = Math.max(3, Math.min(36, Math.floor(620 / Math.max(source.length, target.length))));
  if (cell < 12) return { cell, left: 26, top: 26 };
  const size = Math.min(13, cell - 1);
  const widest = (tokens) => Math.min(118, Math.max(...tokens.map((t) => Math.min([...t].length, 18))) * size * 0.62);
  return { cell, left: widest(target) + 34, top: widest(source) * 0.75 + 34 };
}

function drawMap() {
  const { source, target } = view();
  const { cell, left, top } = frame();
  const [width, height] = [left + cell * source.length + 90, top + cell * target.length + 8];
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  const styles = getComputedStyle(document.documentElement);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const [iNow, jNow] = state.cell;
  for (let i = 0; i < target.length; i++) {
    for (let j = 0; j < source.length; j++) {
      const w = weight(i, j);
      const [x, y] = [left + j * cell, top + i * cell];
      context.fillStyle = shade(w);
      context.fillRect(x, y, cell, cell);
      if (w < 0 && cell >= 8) {
        context.strokeStyle = styles.getPropertyValue("--muted");
        context.lineWidth = 0.5;
        context.stroke(new Path2D(`M${x} ${y + cell}L${x + cell} ${y}`));
      }
    }
  }
  context.strokeStyle = styles.getPropertyValue("--rule");
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, cell * source.length + 1, cell * target.length + 1);
  context.font = "12px Helvetica, Arial, sans-serif";
  context.fillStyle = styles.getPropertyValue("--muted");
  context.textAlign = "left";
  context.fillText("keys", left, 12);
  const turned = (angle, x, y, text, ...place) => {
    context.save();
    context.translate(x, y);
    context.rotate(angle);
    context.fillText(text, ...place);
    context.restore();
  };
  turned(-Math.PI / 2, 12, top + 30, "queries", -20, 0);
  if (cell >= 12) {
    context.font = `${Math.min(13, cell - 1)}px Helvetica, Arial, sans-serif`;
    context.textBaseline = "middle";
    const name = (tokens, i, now) => {
      context.fillStyle = styles.getPropertyValue(i === now ? "--mark" : "--ink");
      return isolated(tokens[i].length > 18 ? `${[...tokens[i]].slice(0, 17).join("")}…` : tokens[i]);
    };
    context.textAlign = "right";
    target.forEach((_, i) => context.fillText(name(target, i, iNow), left - 8, top + (i + 0.5) * cell, 118));
    context.textAlign = "left";
    source.forEach((_, j) => turned(-Math.PI / 4, left + (j + 0.5) * cell, top - 8, name(source, j, jNow), 0, 0, 130));
  }
  context.strokeStyle = "#d55e00";
  context.lineWidth = 2;
  context.strokeRect(left + jNow * cell, top + iNow * cell, cell, cell);
  const masked = heads().some((h) => layer().heads[h].some((all) => all.includes(-1)));
  byId("legend").replaceChildren(scale(), ...(masked ? [sample(shade(-1), "masked")] : []));
}

/** An entry of the legend: a patch of a colour, and what it means. */
const sample = (background, text, className = "") =>
  make("span", {}, make("i", { class: className, style: `background: ${background}` }), text);

/** The colour of a weight from 0 to 1; below 0, of what the mask hides, the last one. */
const shade = (w) => ramp().at(w < 0 ? -1 : Math.round(w * (ramp().length - 2)));
const scale = () => sample(`linear-gradient(to right, ${ramp().slice(0, -1).join(", ")})`, "weight, from 0 to 1", "wide");

function readout() {
  const { source, target } = view();
  const all = state.out.size ? `mean of heads ${heads().join(", ")}` : "mean of all heads";
  const of = state.head < 0 ? all : `head ${state.head}`;
  const amount = (w) => (w < 0 ? "masked" : w.toFixed(4));
  if (state.picture === "overview") return "Each small map is one head: rows are queries, columns are keys. Click one to see it.";
  if (state.picture === "numbers") {
    return `How “${isolated(target[state.query])}” came to its weights: softmax of its scaled products with all keys.`;
  }
  if (state.picture === "map") {
    const [i, j] = state.cell;
    const pin = state.pinned && state.pinned.side === "cell" ? ", pinned" : "";
    return `${isolated(target[i])} → ${isolated(source[j])}: ${amount(weight(i, j))} (${of}${pin})`;
  }
  const chosen = active();
  if (!chosen) return "Point at a token, or move to one with the Tab and arrow keys.";
  const query = chosen.side === "query";
  const others = query ? source : target;
  const pairs = others.map((token, k) => [query ? weight(chosen.index, k) : weight(k, chosen.index), token]);
  const seen = pairs.filter(([w]) => w > 0.00005).sort((a, b) => b[0] - a[0]).slice(0, 5);
  const most = seen.map(([w, token]) => `${isolated(token)} ${amount(w)}`).join(", ") || "nothing";
  const name = isolated((query ? target : source)[chosen.index]);
  const pin = same(chosen, state.pinned) ? ", pinned" : "";
  return `${name} ${query ? "looks at" : "is looked at by"}: ${most} (${of}${pin})`;
}

function draw() {
  const pictures = { lines: drawLines, map: drawMap, overview: drawOverview, numbers: drawNumbers };
  for (const name of Object.keys(pictures)) byId(name).hidden = name !== state.picture;
  pictures[state.picture]();
  byId("readout").textContent = readout();
}

function show(changes) {
  Object.assign(state, changes);
  state.layer = Math.min(state.layer, view().layers.length - 1);
  state.head = Math.min(state.head, layer().heads.length - 1);
  if ("view" in changes || "layer" in changes || "head" in changes) state.out.clear();
  if ("view" in changes) {
    Object.assign(state, { hovered: null, focused: null, pinned: null, cell: [0, 0] });
    fillTokens();
  }
  fillSelects();
  draw();
}

// ---- what the reader does

for (const select of [viewSelect, layerSelect, headSelect]) {
  select.addEventListener("change", () => show({ [select.id]: Number(select.value) }));
}
for (const radio of document.querySelectorAll("input[name=picture]")) {
  radio.addEventListener("change", () => {
    const held = state.pinned && state.pinned.side !== "cell" && radio.value !== "map" ? state.pinned : null;
    show({ picture: radio.value, pinned: held });
  });
}
dark.addEventListener("change", draw);

for (const kind of ["click", "dblclick"]) {
  byId("legend").addEventListener(kind, (event) => {
    const tile = event.target.closest(".tile");
    if (!tile || (kind === "click" && event.detail > 1)) return;
    const h = Number(tile.dataset.head);
    if (kind === "dblclick") leave([h]);
    else leave(heads().includes(h) ? heads().filter((other) => other !== h) : [...heads(), h]);
  });
}

/** Show these heads only; one at least. */
function leave(shownHeads) {
  if (!shownHeads.length) return;
  state.head = -1;
  state.out = new Set(every().filter((h) => !shownHeads.includes(h)));
  fillSelects();
  draw();
}

const placeOf = (item) => item && { side: item.dataset.side, index: Number(item.dataset.index) };
const tokenOf = (event) => placeOf(event.target.closest("li"));

function set(changes) {
  Object.assign(state, changes);
  draw();
}

for (const list of [byId("query"), byId("key")]) {
  list.addEventListener("mouseover", (event) => set({ hovered: tokenOf(event) }));
  list.addEventListener("mouseleave", () => set({ hovered: null }));
  list.addEventListener("focusin", (event) => set({ focused: tokenOf(event) }));
  list.addEventListener("focusout", () => set({ focused: null }));
  list.addEventListener("click", (event) => pin(tokenOf(event)));
  list.addEventListener("keydown", (event) => {
    const items = [...list.children];
    const now = items.indexOf(event.target.closest("li"));
    const last = items.length - 1;
    const moves = { ArrowDown: Math.min(now + 1, last), ArrowUp: Math.max(now - 1, 0), Home: 0, End: last };
    const count = layer().heads.length + 1;
    const turns = { ArrowRight: 1, ArrowLeft: count - 1 };
    if (event.key in moves) {
      items[now].tabIndex = -1;
      items[moves[event.key]].tabIndex = 0;
      items[moves[event.key]].focus();
    } else if (event.key in turns) {
      show({ head: ((state.head + 1 + turns[event.key]) % count) - 1 });
    } else if (event.key === "Enter" || event.key === " ") {
      pin(tokenOf(event));
    } else if (event.key === "Escape") {
      set({ hovered: null, focused: null, pinned: null });
    } else {
      return;
    }
    event.preventDefault();
  });
}

function pin(token) {
  if (token) set(same(token, state.pinned) ? { pinned: null, focused: null } : { pinned: token, focused: token });
}

canvas.addEventListener("mousemove", (event) => {
  const { cell, left, top } = frame();
  const shrunk = canvas.width / (window.devicePixelRatio || 1) / canvas.clientWidth;
  const i = Math.floor((event.offsetY * shrunk - top) / cell);
  const j = Math.floor((event.offsetX * shrunk - left) / cell);
  const inside = i >= 0 && j >= 0 && i < view().target.length && j < view().source.length;
  if (inside && !state.pinned && (i !== state.cell[0] || j !== state.cell[1])) set({ cell: [i, j] });
});
canvas.addEventListener("click", () => set({ pinned: state.pinned ? null : { side: "cell", index: 0 } }));
canvas.addEventListener("keydown", (event) => {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (event.key in moves) {
    const sizes = [view().target.length, view().source.length];
    set({ cell: state.cell.map((c, k) => Math.max(0, Math.min(sizes[k] - 1, c + moves[event.key][k]))) });
  } else if (event.key === "Enter" || event.key === " ") {
    set({ pinned: state.pinned ? null : { side: "cell", index: 0 } });
  } else if (event.key === "Escape") {
    set({ pinned: null });
  } else {
    return;
  }
  event.preventDefault();
});

show({ view: 0 });
