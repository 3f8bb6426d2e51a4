"""What is reported of a run on the codes: numbers as a dictionary, and the same as Markdown."""

import os
import platform
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import adjusted_rand_score

import beside  # noqa: F401
import treestick
from densities import ward_tree
from pictures import LEAST, seconds_per_sweep
from treestick import Tree
from treestick.analysis.consensus import distance
from treestick.analysis.diagnosis import diagnose
from treestick.analysis.purity import dendrogram_purity, label_counts, label_entropy

PAPER_SECONDS = 180.0
"""Of a sweep: "approximately three minutes" (section 5)."""
OF_SCHEDULE = {"default": "", "paper": " with the paper's moves, from a draw of the prior"}
N_LISTED = 12
N_NAMED = 3

Labels = dict[str, npt.NDArray[np.str_]]


def measure_tree(model: Any, cpu_seconds: float | None) -> dict[str, Any]:
    """Return the size of the best tree, and how long a sweep takes."""
    tree = model.tree_
    seconds = seconds_per_sweep(model)
    return {
        "nodes": tree.n_nodes,
        "depth": int(tree.depth.max()),
        "mean_depth_of_data": float(tree.depth[tree.assignments].mean()),
        "nodes_with": {str(n): int((tree.n_here >= n).sum()) for n in LEAST},
        "nodes_with_at_or_below": {str(n): int((tree.n_through >= n).sum()) for n in LEAST},
        "images_at_inner_nodes": int(tree.n_here[tree.n_below > 0].sum()),
        "log_likelihood": tree.log_likelihood,
        "hyperparameters": {
            "alpha0": model.alpha0_,
            "decay": model.decay_,
            "gamma": model.gamma_,
            "diffusion, mean over bits": float(np.mean(model.diffusion_)),
        },
        "seconds_per_sweep": {
            "median": float(np.median(seconds)),
            "first draws": float(np.median(seconds[:, :5])),
            "last draws": float(np.median(seconds[:, -5:])),
            "cpu, mean": cpu_seconds,
            "paper": PAPER_SECONDS,
        },
    }


def measure_agreement(model: Any) -> dict[str, Any]:
    """Return how far chains agree: R-hat, and what their best trees have in common."""
    found = diagnose(model)
    rows = [
        {name: _known(value) for name, value in row._asdict().items()}
        for row in found.rows
        if row.name != "log likelihood"
    ]
    best = _best_by_chain(model)
    between = [
        {"chains": [i, j], **compare(a, b)}
        for i, a in best.items()
        for j, b in best.items()
        if i < j
    ]
    return {
        "scalars": rows,
        "pairs_together_differ_by": _known(found.gap),
        "verdict": found.verdict.lines,
        "best_trees": between,
    }


def compare(one: Tree, other: Tree) -> dict[str, float]:
    """Return what two trees of the same images have in common."""
    return {
        "adjusted_rand": float(adjusted_rand_score(one.assignments, other.assignments)),
        "share_of_pairs_related_otherwise": distance(one, other),
    }


def _best_by_chain(model: Any) -> dict[int, Tree]:
    """Return the likeliest draw of each chain."""
    likelihood = model.idata_["sample_stats"]["complete_data"].values
    chain = np.asarray(model.draws_.chain)
    best = {}
    for place, number in enumerate(np.unique(chain)):
        within = np.flatnonzero(chain == number)
        best[int(number)] = model.draws_[int(within[np.argmax(likelihood[place])])]
    return best


def _known(value: Any) -> Any:
    """Return None for what is not known: JSON has no nan."""
    return None if isinstance(value, float) and not np.isfinite(value) else value


def measure_labels(
    tree: Tree, X: npt.NDArray[np.uint8], labels: Labels, rows: npt.NDArray[np.int64]
) -> dict[str, Any]:
    """Return purities of the tree, and on ``rows`` alone beside Ward's tree of those rows."""
    some, in_one_node = Tree(tree.parent, tree.assignments[rows]), Tree([-1], 0 * tree.assignments)
    ward = ward_tree(X[rows].astype(np.float64))
    found: dict[str, Any] = {"rows_for_ward": int(rows.size)}
    for kind, of_data in labels.items():
        shares = np.unique(of_data, return_counts=True)[1] / of_data.size
        found[kind] = {
            "classes": int(shares.size),
            "purity": dendrogram_purity(tree, of_data),
            "purity_on_rows": dendrogram_purity(some, of_data[rows]),
            "purity_of_ward": dendrogram_purity(ward, of_data[rows]),
            "purity_of_one_node": dendrogram_purity(in_one_node, of_data),
            "entropy": float(-(shares * np.log(shares)).sum()),
            "entropy_given_node": label_entropy(tree, of_data),
            "largest_nodes": _mixtures(tree, of_data, "largest"),
            "purest_nodes": _mixtures(tree, of_data, "purest"),
        }
    return found


def _mixtures(tree: Tree, of_data: npt.NDArray[np.str_], which: str) -> list[dict[str, Any]]:
    """Return the most common classes of the largest nodes, or of the purest subtrees with fifty.

    Of subtrees, none is within another.
    """
    names = np.unique(of_data)
    counts = label_counts(tree, of_data, below=which == "purest")
    size = counts.sum(axis=1)
    order = size if which == "largest" else counts.max(axis=1) / np.maximum(size, 1)
    listed: list[dict[str, Any]] = []
    taken: set[int] = set()
    over: set[int] = set()  # nodes above those that are listed
    for node in np.argsort(-order, kind="stable").tolist():
        path = set(tree.path(node).tolist())
        if size[node] < LEAST[1] or (which == "purest" and (node in over or path & taken)):
            continue
        classes = [
            [str(names[k]), float(counts[node, k] / size[node])]
            for k in np.argsort(-counts[node], kind="stable")[:N_NAMED]
            if counts[node, k] > 0
        ]
        depth = int(tree.depth[node])
        listed.append({"node": node, "depth": depth, "images": int(size[node]), "classes": classes})
        if len(listed) == N_LISTED:
            break
        taken |= {node}
        over |= path
    return listed


def conditions() -> dict[str, Any]:
    """Return where and with what the numbers were measured."""
    return {
        "treestick": treestick.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def _cell(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def to_markdown(report: dict[str, Any]) -> str:
    """Return the report to be read."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: dict[str, Any]) -> Iterator[str]:
    tree, asked = report["tree"], report["asked"]
    seconds = tree["seconds_per_sweep"]
    yield "# CIFAR-100 by tree-structured stick breaking\n"
    yield (
        f"{asked['n_data']:,} codes of {asked['n_bits']} bits; {asked['sweeps']:,} sweeps of "
        f"{asked['chains']} {'chain' if asked['chains'] == 1 else 'chains'}"
        f"{OF_SCHEDULE[asked['schedule']]}, seed {asked['seed']}; "
        f"{', '.join(f'{name} {value}' for name, value in report['conditions'].items())}.\n"
    )
    yield "## Time\n"
    yield (
        f"A sweep took {seconds['median']:.2f} s (median; first draws "
        f"{seconds['first draws']:.2f}, last {seconds['last draws']:.2f}), where the paper reports "
        f"about {PAPER_SECONDS:.0f} s for 50,000 images (one core, 2010): "
        f"{PAPER_SECONDS / seconds['median']:.0f} times less.\n"
    )
    if seconds["cpu, mean"] is not None:
        yield f"On average over all sweeps, it took {seconds['cpu, mean']:.2f} s of CPU time.\n"
    yield "## The tree\n"
    at, below = tree["nodes_with"], tree["nodes_with_at_or_below"]
    sizes = ", ".join(f"{at[n]} ({below[n]}) with at least {n}" for n in at)
    yield (
        f"The best draw has {tree['nodes']:,} nodes and depth {tree['depth']}; images are at depth "
        f"{tree['mean_depth_of_data']:.1f} on average, {tree['images_at_inner_nodes']:,} of them "
        f"at inner nodes. Nodes by their images (in brackets: at or below them): {sizes}.\n"
    )
    yield (
        "Posterior means: "
        + ", ".join(f"{name} {value:.3g}" for name, value in tree["hyperparameters"].items())
        + ".\n"
    )
    yield "![Figure 3 of the paper: the tree, three subtrees, a part of each](figure3.png)\n"
    yield "The whole tree: [tree.html](tree.html).\n"
    yield from _agreement(report["agreement"], report["held_out"][0]["in_common"])
    yield from _held_out(report["held_out"], report["asked"])
    yield from _labels(report["labels"])


def _agreement(found: dict[str, Any], split: dict[str, Any]) -> Iterator[str]:
    yield "## Do the chains agree?\n"
    yield "![Traces](traces.png)\n"
    yield "| scalar | mean | sd | R-hat | effective draws |\n|---|---|---|---|---|"
    for row in found["scalars"]:
        yield (
            f"| {row['name']} | {row['mean']:.6g} | {row['sd']:.3g} | {_cell(row['rhat'], 2)} | "
            f"{_cell(row['ess_bulk'], 0)} |"
        )
    yield ""
    if found["pairs_together_differ_by"] is not None:
        yield (
            f"Chains differ by {found['pairs_together_differ_by']:.3f} on how often two images are "
            "at one node.\n"
        )
    for pair in found["best_trees"]:
        yield from _in_common(
            f"Best trees of chains {pair['chains'][0] + 1} and {pair['chains'][1] + 1}", pair
        )
    yield from _in_common("The best tree, and that of the chain for held-out density", split)
    yield from (f"> {line}\n" for line in found["verdict"])


def _in_common(which: str, pair: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{which}: adjusted Rand index {pair['adjusted_rand']:.3f}; "
        f"{pair['share_of_pairs_related_otherwise']:.1%} of all pairs of images are related "
        "otherwise (same node, above, below, apart).\n"
    )


def _held_out(found: list[dict[str, Any]], asked: dict[str, Any]) -> Iterator[str]:
    yield "## Held-out density\n"
    yield f"Nats per image; {asked['n_fitted']:,} to fit, {asked['n_held_out']:,} held out.\n"
    yield "| model | held out (± standard error) | components or nodes | CPU s |"
    yield "|---|---|---|---|"
    for row in found:
        yield (
            f"| {row['name']} | {row['held_out']:.3f} ± {row['error']:.3f} | {row['nodes']:,} | "
            f"{_cell(row['cpu_seconds'], 0)} |"
        )
        if "one_draw" in row:
            low, mean, high = row["one_draw"]
            yield f"| - one draw alone | {mean:.3f} ({low:.3f} to {high:.3f}) | | |"
    yield ""


def _labels(found: dict[str, Any]) -> Iterator[str]:
    kinds = {kind: of for kind, of in found.items() if isinstance(of, dict)}
    n_rows = found["rows_for_ward"]
    yield "## Labels, which no model has seen\n"
    yield (
        "| labels | classes | dendrogram purity | all in one node | the tree, on "
        f"{n_rows:,} images | Ward's tree of these | entropy of a label, nats | given its node |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for kind, of in kinds.items():
        yield (
            f"| {kind} | {of['classes']} | {of['purity']:.3f} | {of['purity_of_one_node']:.3f} | "
            f"{of['purity_on_rows']:.3f} | {of['purity_of_ward']:.3f} | {of['entropy']:.3f} | "
            f"{of['entropy_given_node']:.3f} |"
        )
    yield ""
    for which in ("largest", "purest"):
        for kind, of in kinds.items():
            listed = of[f"{which}_nodes"]
            if not listed:
                continue
            what = "nodes" if which == "largest" else f"subtrees with at least {LEAST[1]} images"
            yield f"The {which} {what}, and their {kind} labels:\n"
            yield "| node | depth | images | classes |\n|---|---|---|---|"
            for row in listed:
                classes = ", ".join(f"{name} {share:.0%}" for name, share in row["classes"])
                yield f"| {row['node']} | {row['depth']} | {row['images']:,} | {classes} |"
            yield ""
