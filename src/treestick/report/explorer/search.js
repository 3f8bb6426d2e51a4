"use strict";
// Search by id, word or label: nodes and data that match, and where they are in the tree.

const MOST_RESULTS = 40;
let searchNumber = 0;

async function search(query) {
  const number = ++searchNumber;
  const { tree } = app;
  const wanted = query.trim().toLowerCase();
  if (!wanted) {
    app.found = new Map();
    closeResults();
    refresh();
    return;
  }
  const nodes = nodesThatMatch(tree, wanted);
  const data = await dataThatMatch(wanted, number);
  if (number !== searchNumber) return;
  app.found = countAtShownNodes(tree, data);
  const ids = await loadIds();
  showResults(tree, nodes, data, ids);
  refresh();
}

function nodesThatMatch(tree, wanted) {
  const found = [];
  for (let node = 0; node < tree.n; node++) {
    const label = tree.labels[node];
    const byName = wanted === String(node) || wanted === nameOf(tree, node).toLowerCase();
    if (byName) found.unshift(node);
    else if (label && label.toLowerCase().includes(wanted)) found.push(node);
  }
  return found;
}

async function dataThatMatch(wanted, number) {
  const ids = await loadIds();
  const hits = new Uint8Array(ids.length);
  for (let k = 0; k < ids.length; k++) {
    const id = ids[k].toLowerCase();
    if (id === wanted) hits[k] = 2;
    else if (id.includes(wanted)) hits[k] = 1;
  }
  for (const column of await loadColumns()) {
    if (column.ordered) continue;
    const matches = column.names.map((name) => name.toLowerCase().includes(wanted));
    for (let k = 0; k < ids.length; k++) {
      for (let e = column.starts[k]; e < column.starts[k + 1]; e++) if (matches[column.codes[e]]) hits[k] = hits[k] || 1;
    }
  }
  if (contents.texts) await searchTexts(wanted, hits, number);
  const found = [];
  for (let k = 0; k < hits.length; k++) if (hits[k] === 2) found.push(k);
  for (let k = 0; k < hits.length; k++) if (hits[k] === 1) found.push(k);
  return found;
}

async function searchTexts(wanted, hits, number) {
  const { chunks, perChunk } = contents.texts;
  for (let c = 0; c < chunks.length; c++) {
    const listed = await loadJson(chunks[c]);
    if (number !== searchNumber) return;
    listed.forEach((text, k) => {
      if (!hits[c * perChunk + k] && text.toLowerCase().includes(wanted)) hits[c * perChunk + k] = 1;
    });
  }
}

// Data at folded nodes count for the nearest shown node above.
function countAtShownNodes(tree, data) {
  const counts = new Map();
  for (const datum of data) {
    let node = tree.at[datum];
    while (!app.layout.cardOf.has(node)) node = tree.parent[node];
    counts.set(node, (counts.get(node) || 0) + 1);
  }
  return counts;
}

function showResults(tree, nodes, data, ids) {
  const list = byId("results");
  const option = (act, ...content) => make("div", { role: "option", tabindex: "-1", "aria-selected": "false", onclick: act, onpointerdown: (event) => event.preventDefault() }, ...content);
  const rows = [];
  for (const node of nodes.slice(0, 8)) {
    const label = cut(tree.labels[node] || countsOf(tree, node), 80);
    rows.push(option(() => choose(() => goTo(node)), make("strong", { class: "kind" }, nameOf(tree, node)), named(label)));
  }
  for (const datum of data.slice(0, MOST_RESULTS)) {
    const where = make("span", { class: "where" }, `at ${nameOf(tree, tree.at[datum])}`);
    rows.push(option(() => choose(() => goToDatum(datum)), make("span", { class: "kind" }, "datum"), named(cut(ids[datum], 120)), where));
  }
  const words = `${plural(nodes.length, "node")} and ${whole(data.length)} data found`;
  list.replaceChildren(make("p", { class: "small" }, words), ...rows);
  rows.forEach((row, k) => (row.id = `result-${k}`));
  list.hidden = false;
  byId("search").setAttribute("aria-expanded", "true");
  say(words);
}

function choose(act) {
  closeResults();
  act();
}

function closeResults() {
  byId("results").hidden = true;
  const input = byId("search");
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}

function moveInResults(event) {
  const rows = [...byId("results").querySelectorAll('[role="option"]')];
  if (event.key === "Escape") {
    closeResults();
    return;
  }
  if (byId("results").hidden || !rows.length) return;
  const at = rows.findIndex((row) => row.getAttribute("aria-selected") === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter") rows[Math.max(at, 0)].click();
  else if (step) {
    const next = (at + step + rows.length) % rows.length;
    rows.forEach((row, k) => row.setAttribute("aria-selected", String(k === next)));
    rows[next].scrollIntoView({ block: "nearest" });
    byId("search").setAttribute("aria-activedescendant", rows[next].id);
  } else return;
  event.preventDefault();
}
