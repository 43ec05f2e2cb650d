// Positions of the open vertices, by dagre, one module after the other; runs in a worker or in the page.

const PAD = 12; // around what is inside of a module
const TITLE = 22; // the height of its title
const GAPS = { nodesep: 18, ranksep: 26, edgesep: 10, marginx: 0, marginy: 0, rankdir: "TB" };
const known = new Map(); // iterations of a loop have the same layout, and most modules keep theirs

/** Lay out a module: `items` have a size, or are modules with a `least` width; `edges` are pairs of their places. */
function layOut({ items, edges }) {
  const inner = items.map((item) => item.items && layOut(item));
  const sizes = inner.map((laid, i) => (laid ? [Math.max(laid.width, items[i].least), laid.height] : items[i].size));
  const key = JSON.stringify([sizes, edges]);
  if (!known.has(key)) known.set(key, arrange(sizes, edges));
  return { ...known.get(key), inner };
}

/** The places of items and the points of edges, from the upper left corner of the module. */
function arrange(sizes, edges) {
  const level = new dagre.graphlib.Graph({ multigraph: true });
  level.setGraph({ ...GAPS });
  sizes.forEach(([width, height], i) => level.setNode(i, { width, height }));
  edges.forEach(([from, to], i) => level.setEdge(from, to, {}, i));
  if (sizes.length) dagre.layout(level);
  const { width = 0, height = 0 } = level.graph();
  const nodes = sizes.map((_, i) => level.node(i));
  const turn = isMirrored(nodes) ? (x) => width - x : (x) => x;
  return {
    places: nodes.map((node) => ({
      x: PAD + turn(node.x) - node.width / 2,
      y: TITLE + PAD + node.y - node.height / 2,
      width: node.width,
      height: node.height,
    })),
    routes: edges.map(([from, to], i) =>
      level.edge(from, to, i).points.map(({ x, y }) => ({ x: PAD + turn(x), y: TITLE + PAD + y })),
    ),
    width: Math.max(width, 0) + 2 * PAD,
    height: Math.max(height, 0) + TITLE + 2 * PAD,
  };
}

/** True if the first row with several items ends with the one that is computed first: it should stand left. */
function isMirrored(nodes) {
  const rows = new Map();
  nodes.forEach((node, i) => rows.set(node.y, [...(rows.get(node.y) || []), i]));
  const row = [...rows].sort((a, b) => a[0] - b[0]).find(([, places]) => places.length > 1)?.[1] || [];
  row.sort((a, b) => nodes[a].x - nodes[b].x);
  return row.length > 0 && row[0] > row[row.length - 1];
}
