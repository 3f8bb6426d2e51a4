"use strict";
// One datum: what it is, and where it sits in the draws.

// For every node of another tree, the node of the shown tree that shares most data with it (by
// Jaccard's index of the data right at both).
async function matchNodes(tree, other) {
  const at = await loadArray(contents.trees[other].assignments);
  return once(`match ${tree.number} ${other}`, () => {
    const n = contents.trees[other].nNodes;
    const sizes = new Uint32Array(n);
    const shared = new Map();
    for (let i = 0; i < at.length; i++) {
      sizes[at[i]]++;
      const key = at[i] * tree.n + tree.at[i];
      shared.set(key, (shared.get(key) || 0) + 1);
    }
    const best = new Float64Array(n);
    const match = new Int32Array(n).fill(-1);
    for (const [key, both] of shared) {
      const theirs = Math.floor(key / tree.n);
      const ours = key % tree.n;
      const index = both / (sizes[theirs] + tree.here[ours] - both);
      if (index > best[theirs]) {
        best[theirs] = index;
        match[theirs] = ours;
      }
    }
    return match;
  });
}

// Shares of the draws in which the datum sits at (what matches) each node of the shown tree.
async function placesOf(tree, datum) {
  const draws = contents.trees.map((_, k) => k).filter((k) => contents.trees[k].name.startsWith("chain"));
  const counts = new Map();
  for (const k of draws) {
    const at = await loadArray(contents.trees[k].assignments);
    const node = (await matchNodes(tree, k))[at[datum]];
    counts.set(node, (counts.get(node) || 0) + 1);
  }
  const shares = [...counts].map(([node, count]) => ({ node, share: count / draws.length }));
  shares.sort((a, b) => b.share - a.share);
  return { shares, nDraws: draws.length };
}

async function showDatum(datum) {
  const { tree } = app;
  app.datum = datum;
  const node = tree.at[datum];
  const [ids, text, columns] = await Promise.all([loadIds(), loadText(datum), loadColumns()]);
  const content = make("div", { class: "datum" }, make("p", { class: "kicker" }, "Datum"), make("h2", { dir: "auto", class: "name" }, ids[datum]));
  if (contents.images) content.append(await largeImage(datum, ids[datum]));
  content.append(make("p", {}, "Here it is at ", nodeLink(tree, node), node === 0 ? "." : `, ${plural(tree.depth[node], "level")} below the root.`));
  if (text) content.append(make("p", { class: "text name", dir: "auto" }, text));
  const facts = make("dl", { class: "facts" });
  for (const column of columns) {
    const values = [];
    for (let k = column.starts[datum]; k < column.starts[datum + 1]; k++) values.push(column.names[column.codes[k]]);
    const exact = column.values ? column.values[datum] : null;
    const shown = exact !== null && Number.isFinite(exact) ? String(Number(exact.toPrecision(7))) : values.join(", ");
    if (shown) facts.append(make("dt", { dir: "auto" }, column.name), make("dd", { dir: "auto", class: "name" }, shown));
  }
  content.append(facts);
  fillPanel(content, true);
  if (contents.trees.length > 2) await showPlaces(tree, datum, content);
}

async function showPlaces(tree, datum, content) {
  const { shares, nDraws } = await placesOf(tree, datum);
  if (app.datum !== datum || app.tree !== tree) return;
  app.places = new Map(shares.map(({ node, share }) => [node, share]));
  const list = make("ul", { class: "bars" });
  for (const { node, share } of shares.slice(0, MOST_BARS)) {
    const bar = make("i", { class: "bar warm" });
    bar.style.width = `${100 * share}%`;
    list.append(make("li", {}, nodeLink(tree, node), make("span", { class: "track", "aria-hidden": "true" }, bar), make("span", { class: "number" }, percent(share))));
  }
  content.append(
    make("h3", {}, "Where it sits across the draws"),
    make("p", { class: "small" }, `${certainty(shares[0].share)} Nodes of ${nDraws} draws are matched with those of this tree that share most data with them.`),
    list,
  );
  reveal(tree, shares[0].node);
  refresh();
}

function certainty(share) {
  if (share > 0.9) return "Its place is certain.";
  if (share > 0.6) return "Its place is fairly certain.";
  return "Its place is uncertain.";
}

async function largeImage(datum, label) {
  const { width, height } = contents.images;
  const scale = 168 / Math.max(width, height);
  const canvas = thumbnail(Math.round(width * scale), Math.round(height * scale), label);
  canvas.classList.add("large");
  paintTile(canvas, await loadTile(contents.images, datum), contents.images.exact);
  return canvas;
}
