"use strict";
// What is known of the chosen node.

const THUMBS_AT_ONCE = 60;
const TEXTS_AT_ONCE = 20;

function fillPanel(content, isDatum) {
  byId("panel-content").replaceChildren(content);
  byId("panel-back").hidden = !isDatum;
  byId("panel").classList.add("open");
  byId("panel").scrollTop = 0;
}

function nodeLink(tree, node) {
  const label = tree.labels[node];
  const title = label ? `${nameOf(tree, node)}: ${label}` : nameOf(tree, node);
  return make("button", { class: "link", title: cut(title, 200), onclick: () => goTo(node) }, nameOf(tree, node));
}

async function showNode(node) {
  const { tree } = app;
  const content = make("div", { class: "node" });
  content.append(pathOf(tree, node), make("h2", {}, nameOf(tree, node)));
  if (tree.labels[node]) content.append(make("p", { class: "label name", dir: "auto" }, cut(tree.labels[node], 300)));
  content.append(numbersOf(tree, node));
  fillPanel(content, false);
  const pictures = await picturesOf(tree, node);
  if (pictures) content.append(section(node === 0 ? "Its picture" : "How it differs from its parent", pictures));
  // Features without names say less than images.
  const numbered = contents.images !== null && tree.names === null;
  const holder = make("div", { class: "below-choice" });
  if (tree.contrasts && !pictures && !numbered) content.append(differences(tree, node));
  content.append(holder);
  if (tree.contrasts && !pictures && numbered) content.append(differences(tree, node));
  await showData(tree, node, holder, tree.here[node] === 0);
}

function pathOf(tree, node) {
  const list = make("ol", { class: "path", "aria-label": "Path from the root" });
  for (const above of pathTo(tree, node)) {
    list.append(make("li", {}, above === node ? make("span", { "aria-current": "true" }, nameOf(tree, above)) : nodeLink(tree, above)));
  }
  return list;
}

function numbersOf(tree, node) {
  const facts = make("dl", { class: "numbers" });
  const add = (name, value, meaning) => facts.append(make("div", { title: meaning }, make("dt", {}, name), make("dd", {}, value)));
  add("here", whole(tree.here[node]), "Data that stop at this node");
  add("below", whole(tree.through[node] - tree.here[node]), "Data that go through this node and stop deeper");
  if (tree.mass[node] !== null) add("mass", percent(tree.mass[node]), "Probability that a new datum stops at this node");
  add("depth", whole(tree.depth[node]), "Steps from the root");
  add("children", whole(tree.children[node].length), "Nodes right below");
  if (tree.support) add("support", percent(tree.support[node]), "How often the node is found in the posterior");
  return facts;
}

function section(title, ...children) {
  return make("section", {}, make("h3", {}, title), ...children);
}

function differences(tree, node) {
  const hasUnits = tree.contrasts.place !== null;
  const ofRoot = hasUnits ? "How it differs from all data" : "Its largest features";
  const title = node === 0 ? ofRoot : "How it differs from its parent";
  const unit = hasUnits ? " Bars are in standard deviations of each feature." : "";
  const from = node === 0 ? (hasUnits ? "From the mean of all data to this node's value." : "The root has no parent to compare with.") : "From the parent's value (tick) to this node's.";
  const words = from + unit;
  return section(title, make("p", { class: "small" }, words), differenceList(tree, node));
}

// The picture of the node, that of its parent, and what changes from one to the other.
async function picturesOf(tree, node) {
  const sheet = tree.reference.pictures;
  if (!sheet || tree.names !== null) return null;
  const side = 92;
  const row = make("div", { class: "pictures" });
  const add = async (which, words) => {
    const canvas = thumbnail(side, Math.round((side * sheet.height) / sheet.width), `${words}: ${nameOf(tree, which)}`);
    paintTile(canvas, await loadTile(sheet, which), sheet.exact);
    row.append(make("figure", {}, canvas, make("figcaption", {}, words)));
  };
  await add(node, "this node");
  if (node === 0) return row;
  await add(tree.parent[node], "its parent");
  const canvas = thumbnail(side, Math.round((side * sheet.height) / sheet.width), "difference: blue is darker here, orange lighter");
  await paintDifference(canvas, sheet, node, tree.parent[node]);
  row.append(make("figure", {}, canvas, make("figcaption", {}, "difference")));
  return row;
}

async function paintDifference(canvas, sheet, node, parent) {
  const read = async (which) => {
    const tile = await loadTile(sheet, which);
    const aside = make("canvas", { width: tile.width, height: tile.height });
    const context = aside.getContext("2d", { willReadFrequently: true });
    context.drawImage(tile.sheet, tile.x, tile.y, tile.width, tile.height, 0, 0, tile.width, tile.height);
    return context.getImageData(0, 0, tile.width, tile.height);
  };
  const [ours, theirs] = [await read(node), await read(parent)];
  for (let k = 0; k < ours.data.length; k += 4) {
    const change = (ours.data[k] - theirs.data[k]) / 255;
    const [r, g, b] = change < 0 ? [0, 98, 155] : [214, 110, 30];
    const strength = Math.min(Math.abs(change) * 1.25, 1);
    [r, g, b].forEach((value, c) => (ours.data[k + c] = 255 + (value - 255) * strength));
    ours.data[k + 3] = 255;
  }
  const aside = make("canvas", { width: sheet.width, height: sheet.height });
  aside.getContext("2d").putImageData(ours, 0, 0);
  paintTile(canvas, { sheet: aside, x: 0, y: 0, width: sheet.width, height: sheet.height }, sheet.exact);
}

// -- its data --------------------------------------------------------------------------------------

async function showData(tree, node, holder, withBelow) {
  const below = tree.through[node] - tree.here[node];
  const data = withBelow ? dataBelow(tree, node) : dataAt(tree, node);
  const columns = await loadColumns();
  if (app.selected !== node || app.tree !== tree) return;
  holder.replaceChildren();
  if (below > 0 && tree.here[node] > 0) holder.append(choiceOf(tree, node, holder, withBelow));
  for (const column of columns) {
    if (!data.length || !repeats(column)) continue;
    const counts = countColumn(column, data);
    if (!counts.some((count) => count > 0)) continue;
    const all = contents.nData;
    const chart = column.ordered ? histogram(column, counts, data.length, all) : barList(column, counts, data.length, all);
    holder.append(make("section", {}, named(column.name, "h3"), chart));
  }
  if (columns.length && data.length) holder.append(make("p", { class: "small" }, "Ticks and lines: what as many of all data would give."));
  const title = withBelow && tree.here[node] === 0 ? "Data below it" : withBelow ? "Data at it and below" : "Data at this node";
  const list = make("div", { class: contents.images ? "thumbs" : "texts" });
  holder.append(section(`${title} (${whole(data.length)})`, list));
  await showMoreData(data, list, 0);
}

function choiceOf(tree, node, holder, withBelow) {
  const button = (words, value) =>
    make("button", { "aria-pressed": String(withBelow === value), onclick: () => showData(tree, node, holder, value) }, words);
  return make("div", { class: "choice", role: "group", "aria-label": "Which data" }, button("here", false), button("with below", true));
}

async function showMoreData(data, list, start) {
  const step = contents.images ? THUMBS_AT_ONCE : TEXTS_AT_ONCE;
  const end = Math.min(start + step, data.length);
  const ids = await loadIds();
  list.querySelector(".show-more")?.remove();
  for (let k = start; k < end; k++) list.append(await dataButton(data[k], ids[data[k]]));
  if (end < data.length) {
    const more = make("button", { class: "show-more quiet", onclick: () => showMoreData(data, list, end) }, `Show more (${whole(data.length - end)} left)`);
    list.append(more);
  }
}

async function dataButton(datum, id) {
  if (contents.images) {
    const { width, height, exact } = contents.images;
    const scale = 44 / Math.max(width, height);
    const canvas = thumbnail(Math.round(width * scale), Math.round(height * scale), id);
    loadTile(contents.images, datum).then((tile) => paintTile(canvas, tile, exact));
    return make("button", { class: "thumb-button", title: cut(id, 200), "aria-label": cut(id, 200), onclick: () => showDatum(datum) }, canvas);
  }
  const text = await loadText(datum);
  const button = make("button", { class: "text-button", onclick: () => showDatum(datum) }, named(cut(id, 200), "strong"));
  if (text) button.append(make("span", { dir: "auto", class: "name excerpt" }, cut(text, 180)));
  return button;
}
