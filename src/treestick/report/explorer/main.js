"use strict";
// What the page is about now, and what the controls do.

const app = {
  ready: false,
  tree: null,
  layout: null,
  selected: 0,
  datum: null,
  found: new Map(), // node -> matches of the search at it
  places: new Map(), // node -> share of the draws in which the chosen datum sits there
  pictures: [],
  covers: [],
  coverSlot: new Map(),
};
const trees = new Map();

function refresh() {
  app.layout = layOut(app.tree);
  showOutline();
  showFolded();
  requestDraw();
}

// Draw again after a change of what is open, with the node where it was.
function refreshAround(node) {
  const before = app.layout.cardOf.get(node);
  refresh();
  const after = app.layout.cardOf.get(node);
  if (before && after) view.y += (before.y - after.y) * view.k;
  requestDraw();
}

function toggleNode(node) {
  if (!app.tree.children[node].length) return;
  toggle(app.tree, node);
  refreshAround(node);
  say(`${nameOf(app.tree, node)} ${isOpen(app.tree, node) ? "opened" : "folded"}`);
}

function openAll(node) {
  app.tree.opened.add(node);
  refreshAround(node);
}

function selectNode(node, sight = true) {
  app.selected = node;
  app.datum = null;
  app.places = new Map();
  markOutline(byId("outline").contains(document.activeElement));
  byId("panel").classList.add("open");
  const card = app.layout.cardOf.get(node);
  if (sight && card) bringIntoSight(card);
  requestDraw();
  showNode(node);
}

function goTo(node) {
  showTab("tree");
  reveal(app.tree, node);
  refresh();
  selectNode(node);
}

async function goToDatum(datum) {
  goTo(app.tree.at[datum]);
  await showDatum(datum);
}

function showFolded() {
  const shown = app.layout.cardOf.size;
  const hidden = app.tree.n - shown;
  let data = 0;
  for (let k = 0; k < app.tree.n; k++) if (!app.layout.cardOf.has(k)) data += app.tree.here[k];
  byId("folded").textContent = hidden
    ? `${plural(shown, "node")} shown; ${plural(hidden, "node")} with ${whole(data)} data (${percent(data / Math.max(contents.nData, 1))}) folded away`
    : `All ${plural(shown, "node")} shown`;
}

// -- which tree ------------------------------------------------------------------------------------

async function showTree(number) {
  if (!trees.has(number)) trees.set(number, await loadTree(number));
  const tree = trees.get(number);
  app.tree = tree;
  app.selected = 0;
  app.datum = null;
  app.found = new Map();
  app.places = new Map();
  app.layout = layOut(tree);
  byId("legend").textContent = legendWords();
  byId("subtitle").textContent = subtitleWords(tree);
  byId("subtitle").title = subtitleWords(tree);
  fitCanvas(); // words may take more lines
  if (!tree.started) startTree(tree);
  setThreshold(tree.threshold);
  fit(app.layout, CARD.readable);
  await loadPictures(tree);
  requestDraw();
  if (app.ready) selectNode(0, false);
}

// As many nodes as can be read at once.
function startTree(tree) {
  tree.started = true;
  const room = (stageSize().height - BOTTOM - topMargin()) / CARD.readable;
  const sizes = Float64Array.from(tree.through).sort().reverse();
  for (let n = tree.n <= FIRST_NODES ? tree.n : FIRST_NODES; n > 6; n = Math.floor(n * 0.85)) {
    tree.threshold = n === tree.n ? 0 : Math.max(1, sizes[n - 1]);
    app.layout = layOut(tree);
    if (app.layout.height <= room) return;
  }
}

async function loadPictures(tree) {
  const sheet = tree.reference.pictures;
  app.pictures = sheet ? await Promise.all(sheet.sheets.map(loadSheet)) : [];
}

async function findCovers() {
  (await loadArray(contents.covers.data)).forEach((datum, slot) => app.coverSlot.set(datum, slot));
}

async function loadCovers() {
  app.covers = await Promise.all(contents.covers.sheet.sheets.map(loadSheet));
  requestDraw();
}

function listTrees() {
  const select = byId("draw");
  contents.trees.forEach((tree, k) => {
    select.append(make("option", { value: k }, `${tree.name} (${plural(tree.nNodes, "node")})`));
  });
  select.disabled = contents.trees.length < 2;
  select.addEventListener("change", async () => {
    await showTree(Number(select.value));
    say(`${contents.trees[app.tree.number].name}: ${plural(app.tree.n, "node")}`);
  });
}

// -- the threshold: a slider on a logarithmic scale ------------------------------------------------

const SLIDER = 1000;
function toThreshold(position) {
  const most = Math.max(app.tree.through[0], 2);
  return position <= 0 ? 0 : Math.round(Math.exp((position / SLIDER) * Math.log(most)));
}

function toPosition(threshold) {
  const most = Math.max(app.tree.through[0], 2);
  return threshold < 1 ? 0 : Math.max(1, (SLIDER * Math.log(threshold)) / Math.log(most));
}

function setThreshold(threshold) {
  app.tree.threshold = threshold;
  app.tree.opened.clear();
  byId("threshold").value = toPosition(threshold);
  showThreshold();
  refresh();
}

function showThreshold() {
  const least = app.tree.threshold;
  byId("least").textContent = `${whole(least)}+ data`;
}

// -- tabs, theme, panel ----------------------------------------------------------------------------

function showTab(name) {
  for (const one of ["tree", "chains"]) {
    const chosen = one === name;
    const tab = byId(`tab-${one}`);
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
    byId(`view-${one}`).hidden = !chosen;
  }
  if (name === "chains") showDiagnostics();
  else {
    fitCanvas();
    requestDraw();
  }
}

function listenToTabs() {
  for (const one of ["tree", "chains"]) {
    const other = one === "tree" ? "chains" : "tree";
    byId(`tab-${one}`).addEventListener("click", () => showTab(one));
    byId(`tab-${one}`).addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      showTab(other);
      byId(`tab-${other}`).focus();
    });
  }
}

function changeTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark" ||
    (!document.documentElement.dataset.theme && window.matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  readColours();
  requestDraw();
}

function closePanel() {
  byId("panel").classList.remove("open");
  byId("canvas").focus();
}

function listen() {
  const canvas = byId("canvas");
  listenToPointers(
    canvas,
    (x, y) => {
      const found = hit(x, y);
      if (!found) return;
      if (found.act) found.act(found.card.node);
      else selectNode(found.card.node);
    },
    (x, y) => {
      const found = hit(x, y);
      if (found && !found.act) toggleNode(found.card.node);
    },
    (x, y) => {
      const found = hit(x, y);
      canvas.classList.toggle("over", found !== null);
      canvas.title = found ? hint(found) : "";
    },
  );
  canvas.addEventListener("keydown", navigate);
  byId("outline").addEventListener("keydown", navigate);
  byId("zoom-in").addEventListener("click", () => zoomMiddle(1.4));
  byId("zoom-out").addEventListener("click", () => zoomMiddle(1 / 1.4));
  byId("zoom-fit").addEventListener("click", () => fit(app.layout));
  byId("threshold").addEventListener("input", (event) => {
    setThreshold(toThreshold(Number(event.target.value)));
    fit(app.layout, CARD.readable);
  });
  byId("theme").addEventListener("click", changeTheme);
  byId("panel-close").addEventListener("click", closePanel);
  byId("panel-back").addEventListener("click", () => selectNode(app.selected));
  byId("outline-toggle").addEventListener("click", (event) => {
    const open = byId("view-tree").classList.toggle("with-outline");
    event.target.setAttribute("aria-pressed", String(open));
  });
  let waiting = 0;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => search(event.target.value), 120);
  });
  byId("search").addEventListener("keydown", moveInResults);
  byId("search").addEventListener("blur", closeResults);
  byId("panel").addEventListener("keydown", (event) => event.key === "Escape" && closePanel());
  new ResizeObserver(() => {
    fitCanvas();
    draw();
  }).observe(canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    requestDraw();
  });
}

async function start() {
  byId("title").textContent = contents.title;
  byId("tab-tree").parentElement.hidden = contents.diagnostics === null;
  if (contents.covers !== null || contents.trees[0].pictures !== null) Object.assign(CARD, TILE);
  readColours();
  fitCanvas();
  listTrees();
  listenToTabs();
  listen();
  if (contents.covers) await findCovers();
  await showTree(0);
  app.ready = true;
  performance.mark("ready");
  document.documentElement.dataset.ready = "true";
  if (window.innerWidth >= 700) selectNode(0, false);
  if (contents.covers) await loadCovers();
}

function hint({ card, act }) {
  const { tree } = app;
  if (act === openAll) return `Show ${plural(card.more.nodes, "more node")} with ${whole(card.more.data)} data`;
  if (act) return card.shown.length ? "Fold" : "Unfold";
  const label = tree.labels[card.node];
  return `${nameOf(tree, card.node)}${label ? `: ${cut(label, 200)}` : ""} (${countsOf(tree, card.node)})`;
}

function subtitleWords(tree) {
  const depth = tree.depth.reduce((most, one) => Math.max(most, one), 0);
  const words = `${whole(contents.nData)} data, ${plural(tree.n, "node")}, depth ${depth}.`;
  return contents.note ? `${words} ${contents.note}` : words;
}

function legendWords() {
  const words = ["Lines and bars: share of the data at or below, dark for those right here."];
  if (CARD.tile && !app.tree.support) words.push("Number: data here.");
  if (app.tree.support) words.push("Percentage: posterior support.");
  return words.join(" ");
}

start();
