"use strict";
// One tree: its structure, its data, and which of its nodes are open.

const FIRST_NODES = 45; // about as many are shown at first
const LONGEST_LABEL = 80;

async function loadTree(number) {
  const reference = contents.trees[number];
  const [structure, names, columns] = await Promise.all([
    loadJson(reference.structure),
    loadFeatureNames(),
    loadColumns(),
  ]);
  const parent = structure.parent;
  const n = parent.length;
  const children = Array.from({ length: n }, () => []);
  const depth = new Int32Array(n);
  const through = Float64Array.from(structure.here);
  const within = new Int32Array(n).fill(1); // nodes at or below
  for (let k = 1; k < n; k++) {
    children[parent[k]].push(k);
    depth[k] = depth[parent[k]] + 1;
  }
  for (let k = n - 1; k > 0; k--) {
    through[parent[k]] += through[k];
    within[parent[k]] += within[k];
  }
  for (const list of children) list.sort((a, b) => through[b] - through[a] || a - b);
  const tree = {
    number, reference, n, parent, children, depth, through, within, names,
    here: structure.here,
    mass: structure.mass,
    support: structure.support,
    contrasts: structure.contrasts,
    collapsed: new Set(),
    opened: new Set(), // nodes that show all their children, whatever the threshold
    threshold: 1,
    labels: new Array(n).fill(null),
    members: null,
  };
  await loadMembers(tree);
  tree.labels = makeLabels(tree, columns);
  tree.threshold = firstThreshold(tree);
  return tree;
}

// Data of node k are members.list[members.start[k] ... members.start[k + 1]], by place in the page.
async function loadMembers(tree) {
  const at = await loadArray(tree.reference.assignments);
  const start = new Uint32Array(tree.n + 1);
  for (let i = 0; i < at.length; i++) start[at[i] + 1]++;
  for (let k = 0; k < tree.n; k++) start[k + 1] += start[k];
  const next = start.slice();
  const list = new Uint32Array(at.length);
  for (let i = 0; i < at.length; i++) list[next[at[i]]++] = i;
  tree.at = at;
  tree.members = { start, list };
}

function dataAt(tree, node) {
  return tree.members.list.subarray(tree.members.start[node], tree.members.start[node + 1]);
}

function nodesBelow(tree, node) {
  const found = [node];
  for (let k = 0; k < found.length; k++) for (const child of tree.children[found[k]]) found.push(child);
  return found;
}

function dataBelow(tree, node) {
  const parts = nodesBelow(tree, node).map((k) => dataAt(tree, k));
  const all = new Uint32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let filled = 0;
  for (const part of parts) {
    all.set(part, filled);
    filled += part.length;
  }
  return all.sort();
}

function pathTo(tree, node) {
  const path = [];
  for (let k = node; k >= 0; k = tree.parent[k]) path.unshift(k);
  return path;
}

// -- what a node is called -------------------------------------------------------------------------

// The features that it has more of than its parent (where they are real numbers: those
// that are above or below the parent's), or the labels that are common in it.
function makeLabels(tree, columns) {
  const column = columns.find((one) => !one.ordered && repeats(one)) || columns.find((one) => one.ordered);
  const fromFeatures = tree.names !== null && tree.contrasts !== null;
  return Array.from({ length: tree.n }, (_, node) => {
    if (fromFeatures) return featureLabel(tree, node);
    return column ? columnLabel(tree, node, column) : null;
  });
}

// Names that each datum has for itself, such as titles, say nothing of a node.
function repeats(column) {
  return column.ordered || column.all.some((count) => count > 1);
}

function featureLabel(tree, node) {
  const { feature, more, directions } = tree.contrasts;
  const all = feature[node].map((which) => isolated(cut(tree.names[which], LONGEST_LABEL)));
  if (directions !== null) return node === 0 ? null : directionLabel(all, directions[node]);
  const words = all.filter((_, k) => more[node][k]).slice(0, 3);
  if (words.length) return words.join(" · ");
  return all.length ? `less ${all.slice(0, 3).join(" · ")}` : null;
}

function directionLabel(names, directions) {
  const words = names.map((name, k) => `${directions[k] > 0 ? "↑" : "↓"} ${name}`);
  return words.filter((_, k) => directions[k] !== 0).slice(0, 3).join(" · ") || null;
}

function columnLabel(tree, node, column) {
  const data = tree.here[node] > 0 ? dataAt(tree, node) : dataBelow(tree, node);
  const counts = countColumn(column, data);
  const order = [...counts.keys()].filter((k) => counts[k] > 0).sort((a, b) => counts[b] - counts[a]);
  const common = order.filter((k) => counts[k] >= 0.2 * data.length).slice(0, 3);
  if (column.ordered) common.sort((a, b) => a - b);
  if (!common.length) return order.length ? "mixed" : null;
  return common.map((k) => isolated(cut(column.names[k], LONGEST_LABEL))).join(" · ");
}

function countColumn(column, data) {
  const counts = new Float64Array(column.names.length);
  for (const datum of data) {
    for (let k = column.starts[datum]; k < column.starts[datum + 1]; k++) counts[column.codes[k]]++;
  }
  return counts;
}

function nameOf(tree, node) {
  return node === 0 ? "Root" : `Node ${node}`;
}

// -- what is shown ---------------------------------------------------------------------------------

function firstThreshold(tree) {
  if (tree.n <= FIRST_NODES) return 0;
  const sizes = Float64Array.from(tree.through).sort().reverse();
  return Math.max(1, sizes[FIRST_NODES - 1]);
}

function shownChildren(tree, node) {
  if (tree.collapsed.has(node)) return [];
  if (tree.opened.has(node)) return tree.children[node];
  return tree.children[node].filter((child) => tree.through[child] >= tree.threshold);
}

function isOpen(tree, node) {
  return shownChildren(tree, node).length > 0;
}

function toggle(tree, node) {
  if (isOpen(tree, node)) {
    tree.collapsed.add(node);
    tree.opened.delete(node);
  } else {
    tree.collapsed.delete(node);
    if (!isOpen(tree, node)) tree.opened.add(node);
  }
}

// Open whatever hides a node.
function reveal(tree, node) {
  for (const above of pathTo(tree, node).slice(0, -1)) {
    tree.collapsed.delete(above);
    const next = pathTo(tree, node)[tree.depth[above] + 1];
    if (tree.through[next] < tree.threshold) tree.opened.add(above);
  }
}
