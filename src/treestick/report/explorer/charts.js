"use strict";
// Small charts: bars of shares, histograms, bars of differences, traces.

const MOST_BARS = 8;

// Rows of names with bars, longest first; the tick is the share among all data.
function barList(column, counts, total, allTotal) {
  const order = [...counts.keys()].filter((k) => counts[k] > 0).sort((a, b) => counts[b] - counts[a]);
  const most = Math.max(...order.map((k) => counts[k]), 1);
  const list = make("ul", { class: "bars" });
  for (const k of order.slice(0, MOST_BARS)) {
    const bar = make("i", { class: "bar" });
    bar.style.width = `${(100 * counts[k]) / most}%`;
    const usual = (column.all[k] / allTotal) * total;
    const tick = make("i", { class: "tick", hidden: usual > most });
    tick.style.left = `${(100 * usual) / most}%`;
    const words = `${whole(counts[k])} (${percent(counts[k] / total)}); among all data ${percent(column.all[k] / allTotal)}`;
    list.append(make("li", { title: words }, named(column.names[k]), make("span", { class: "track", "aria-hidden": "true" }, bar, tick), make("span", { class: "number" }, whole(counts[k]))));
  }
  const rest = order.length - MOST_BARS;
  const wrapped = make("div", {}, list);
  if (rest > 0) wrapped.append(make("p", { class: "small" }, `and ${plural(rest, "other")}`));
  return wrapped;
}

// Columns for ordered categories; the line is what all data would give.
function histogram(column, counts, total, allTotal) {
  const n = counts.length;
  const width = 320;
  const height = 72;
  const usual = column.all.map((count) => (count / allTotal) * total);
  const most = Math.max(...counts, ...usual, 1e-9);
  const step = width / n;
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, class: "histogram", role: "img", "aria-label": inWords(column, counts) });
  let line = "";
  for (let k = 0; k < n; k++) {
    const h = (counts[k] / most) * (height - 4);
    svg.append(make("rect", { x: k * step + 1, y: height - h, width: Math.max(step - 2, 1), height: h, class: "fill" }));
    const y = height - (usual[k] / most) * (height - 4);
    line += `${k ? "L" : "M"}${k * step} ${y}L${(k + 1) * step} ${y}`;
  }
  svg.append(make("path", { d: line, class: "usual" }));
  const ends = make("div", { class: "ends" }, make("span", {}, column.names[0]), make("span", {}, column.names[n - 1]));
  return make("div", {}, svg, ends);
}

function inWords(column, counts) {
  const parts = column.names.map((name, k) => `${name}: ${whole(counts[k])}`);
  return `Histogram of ${column.name}. ${parts.join(", ")}`;
}

// Features by which a node differs from its parent: from the parent's value to its own. Real numbers
// have units of their own, so their bars are in standard deviations from the mean of all data.
function differenceList(tree, node) {
  const { feature, value, parent, more, place: standard, parentPlace } = tree.contrasts;
  const ours = standard === null ? value[node] : standard[node];
  const theirs = standard === null ? parent[node] : parentPlace[node];
  const values = [...ours, ...theirs.filter((v) => v !== null)];
  const low = Math.min(0, ...values);
  const span = Math.max(...values, 0) - low || 1;
  const place = (v) => (100 * (v - low)) / span;
  const list = make("ul", { class: "bars differences" });
  feature[node].forEach((which, k) => {
    const here = value[node][k];
    const above = parent[node][k];
    const name = tree.names === null ? `${contents.kind} ${which}` : tree.names[which];
    const bar = make("i", { class: more[node][k] ? "bar" : "bar less" });
    const from = above === null ? Math.max(low, 0) : theirs[k];
    bar.style.left = `${place(Math.min(from, ours[k]))}%`;
    bar.style.width = `${Math.max(place(Math.max(from, ours[k])) - place(Math.min(from, ours[k])), 1)}%`;
    const tick = make("i", { class: "tick", hidden: above === null });
    if (above !== null) tick.style.left = `${place(theirs[k])}%`;
    const words = above === null ? short(here) : `${short(above)} → ${short(here)}`;
    list.append(make("li", {}, named(name), make("span", { class: "track", "aria-hidden": "true" }, bar, tick), make("span", { class: "number wide" }, words)));
  });
  return list;
}

// Lines of one scalar, one for each chain.
function traceChart(trace, sweep) {
  const width = 560;
  const height = 130;
  const every = trace.values.flat().filter((v) => v !== null);
  const low = Math.min(...every);
  const span = Math.max(...every) - low || 1;
  const first = sweep[0];
  const last = sweep[sweep.length - 1];
  const label = `${trace.name} from ${short(low)} to ${short(low + span)}, ${plural(trace.values.length, "chain")}`;
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, class: "trace", role: "img", "aria-label": label });
  for (const y of [6, height / 2, height - 6]) svg.append(make("line", { x1: 0, x2: width, y1: y, y2: y, class: "grid" }));
  trace.values.forEach((values, chain) => {
    const d = values
      .map((v, k) => (v === null ? "" : `${k ? "L" : "M"}${((sweep[k] - first) / (last - first || 1)) * width} ${height - 6 - ((v - low) / span) * (height - 12)}`))
      .join("");
    svg.append(make("path", { d, class: `chain chain-${chain % 6}` }));
  });
  const scale = make("div", { class: "scale", "aria-hidden": "true" }, make("span", {}, axisNumber(low + span, span)), make("span", {}, axisNumber(low, span)));
  return make("div", { class: "plot" }, scale, svg);
}

// As many digits as tell the two ends apart.
function axisNumber(number, span) {
  const digits = Math.min(Math.max(2 - Math.floor(Math.log10(span)), 0), 4);
  return number.toLocaleString("en", { maximumFractionDigits: digits });
}
