"use strict";
// The second tab: whether to believe the chains.

const VERDICTS = { good: "The chains agree", careful: "Take care", bad: "Not converged" };

function showDiagnostics() {
  const { diagnostics } = contents;
  const page = byId("view-chains");
  if (page.childElementCount) return;
  if (!diagnostics) {
    page.append(make("p", { class: "empty" }, "There are no chains to look at: this page was made from one tree."));
    return;
  }
  page.append(
    make("section", { class: `verdict ${diagnostics.verdict}` }, make("h2", {}, VERDICTS[diagnostics.verdict]), ...diagnostics.lines.map((line) => make("p", {}, line))),
    chainKey(diagnostics),
    make("div", { class: "traces" }, ...diagnostics.traces.map((trace) => traceFigure(trace, diagnostics))),
    summaryTable(diagnostics),
  );
}

function chainKey(diagnostics) {
  const n = diagnostics.traces[0].values.length;
  const key = make("p", { class: "key" });
  for (let chain = 0; chain < n; chain++) key.append(make("span", { class: `key-${chain % 6}` }, `chain ${chain + 1}`));
  const { sweep, nDraws } = diagnostics;
  const thinned = sweep.length < nDraws ? `; ${whole(sweep.length)} of ${whole(nDraws)} draws are drawn` : "";
  key.append(make("span", { class: "small" }, `sweeps ${whole(sweep[0])} to ${whole(sweep[sweep.length - 1])}${thinned}`));
  return key;
}

function traceFigure(trace, diagnostics) {
  return make("figure", {}, make("figcaption", {}, trace.name, make("span", { class: trace.apart || trace.rhat > diagnostics.highestRhat ? "rhat bad" : "rhat" }, rhatWords(trace))), traceChart(trace, diagnostics.sweep));
}

function rhatWords(trace) {
  if (trace.apart) return "R-hat ∞";
  return trace.rhat === null ? "" : `R-hat ${trace.rhat.toFixed(2)}`;
}

function summaryTable(diagnostics) {
  const head = make("tr", {}, ...["", "mean", "sd", "R-hat", "effective draws"].map((name) => make("th", { scope: "col" }, name)));
  const rows = diagnostics.traces.map((trace) => {
    const values = trace.values.flat().filter((v) => v !== null);
    const mean = values.reduce((sum, v) => sum + v, 0) / values.length;
    const sd = Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length);
    const cells = [axisNumber(mean, sd || Math.abs(mean) || 1), short(sd), rhatWords(trace).replace("R-hat ", "") || "–", trace.ess === null ? "–" : whole(Math.round(trace.ess))];
    return make("tr", {}, make("th", { scope: "row" }, trace.name), ...cells.map((cell) => make("td", {}, cell)));
  });
  const words = `R-hat compares the chains: 1 is agreement, above ${diagnostics.highestRhat} they differ. Effective draws: how many independent draws these are worth.`;
  return make("section", { class: "summary" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)), make("p", { class: "small" }, words));
}
