"""Clusters of any shape: HDPTree beside GaussianTree on two moons, and whether measures collapse.

Moons: each is far from Gaussian. GaussianTree has to cover one with many nodes; a node of HDPTree
is a mixture, and may cover it alone. Compared are the number of nodes, the adjusted Rand index of
nodes against moons, that of the best cut into two subtrees, and held-out density.

Collapse: data are drawn from the model itself, with many atoms in each node. With persistence 1 the
atoms of a node are ever fewer down the tree; with 0.9 new ones come in. Counted is the effective
number of components at a node, exp(entropy of its weights), averaged over the data.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import BayesianGaussianMixture

from treestick import GaussianTree, HDPTree


def best_cut(tree: Any, truth: Any) -> float:
    """Return the best adjusted Rand index of one subtree against the rest."""
    best = 0.0
    inside = np.zeros((tree.n_nodes, tree.n_nodes), dtype=bool)
    for node in range(tree.n_nodes):
        inside[list(tree.path(node)), node] = True
    for top in range(1, tree.n_nodes):
        best = max(best, adjusted_rand_score(truth, inside[top][tree.assignments]))
    return best


def moons(seeds: int, draws: int, picture: Path | None) -> None:
    """Print the comparison on two moons, and draw the first."""
    print("| two moons, 600 to fit, 1,000 held out | nodes | nodes with 10 data | ARI | ARI of the "
          "best subtree | held out, nats | s |\n|---|---|---|---|---|---|---|")  # fmt: skip
    rows: dict[str, list[list[float]]] = {}
    fitted = {}
    for seed in range(seeds):
        X, y = make_moons(600, noise=0.07, random_state=2 * seed)
        new, _ = make_moons(1000, noise=0.07, random_state=2 * seed + 1)
        mixture = BayesianGaussianMixture(n_components=30, max_iter=2000, random_state=seed)
        began = time.process_time()
        mixture.fit(X)
        rows.setdefault("BayesianGaussianMixture, full covariances", []).append(
            [np.nan, np.nan, adjusted_rand_score(y, mixture.predict(X)), np.nan,
             mixture.score(new), time.process_time() - began]
        )  # fmt: skip
        shared = {"n_draws": draws, "burn_in": draws, "n_chains": 1, "random_state": seed,
                  "n_jobs": 1, "verbose": 0}  # fmt: skip
        for name, model in (
            ("HDPTree, persistence 0.9", HDPTree(**shared)),
            ("HDPTree, persistence 1", HDPTree(persistence=1.0, **shared)),
            ("GaussianTree", GaussianTree(**shared)),
        ):
            began = time.process_time()
            model.fit(X)
            seconds = time.process_time() - began
            tree = model.tree_
            sizes = np.mean([draw.n_nodes for draw in model.draws_[:: max(draws // 20, 1)]])
            rows.setdefault(name, []).append(
                [sizes, float(np.sum(tree.n_here >= 10)), adjusted_rand_score(y, model.labels_),
                 best_cut(tree, y), model.score(new), seconds]
            )  # fmt: skip
            if seed == 0:
                fitted[name] = model
    for name, found in rows.items():
        a = np.array(found)
        cells = [f"{np.median(a[:, k]):.{p}f}" for k, p in enumerate((0, 0, 2, 2, 3, 0))]
        print(f"| {name} | " + " | ".join(c.replace("nan", "") for c in cells) + " |", flush=True)
    if picture is not None:
        draw_moons(picture, make_moons(600, noise=0.07, random_state=0)[0], fitted)


def draw_moons(path: Path, X: Any, fitted: dict[str, Any]) -> None:
    """Draw the data by node, with the components of the largest nodes."""
    import matplotlib.pyplot as plt
    from matplotlib.patches import Ellipse

    names = ["GaussianTree", "HDPTree, persistence 0.9"]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharex=True, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        model = fitted[name]
        tree = model.tree_
        order = np.argsort(-tree.n_here)
        for rank, node in enumerate(order):
            if tree.n_here[node] == 0:
                continue
            colour = plt.colormaps["tab20"](rank % 20)
            here = X[tree.assignments == node]
            axis.scatter(here[:, 0], here[:, 1], s=9, color=colour, linewidths=0)
        if "HDP" in name:
            weight = tree.node_params["weight"]
            for rank, node in enumerate(order[:10]):
                for k in np.flatnonzero(weight[node, :-1] > 0.03):
                    size = 4.0 * np.sqrt(model.atoms_["variance"][k])
                    axis.add_patch(
                        Ellipse(model.atoms_["mean"][k], *size, fill=False, lw=1.0,
                                color=plt.colormaps["tab20"](rank % 20))
                    )  # fmt: skip
        occupied = int(np.sum(tree.n_here > 0))
        where = "one node" if occupied == 1 else f"{occupied} nodes"
        axis.set_title(f"{name.split(',')[0]}: data at {where}", fontsize=11)
        axis.set_aspect("equal")
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"drawn to {path}")


def simulate(seed: int, n: int, persistence: float, concentration: float) -> Any:
    """Draw data from the model on a tree of three nodes below a root; return them and the atoms."""
    rng = np.random.default_rng(seed)
    parent = [-1, 0, 0, 1]
    tables: list[list[list[int]]] = [[] for _ in parent]
    atoms: list[Any] = []

    def seat(node: int) -> int:
        p = np.array([*(t[0] for t in tables[node]), concentration])
        chosen = rng.choice(p.size, p=p / p.sum())
        if chosen < len(tables[node]):
            tables[node][chosen][0] += 1
            return tables[node][chosen][1]
        if node == 0 or rng.random() < 1.0 - persistence:
            atoms.append((rng.normal(size=2), 0.05 * rng.uniform(0.5, 2.0, size=2)))
            dish = len(atoms) - 1
        else:
            dish = seat(parent[node])
        tables[node].append([1, dish])
        return dish

    node = rng.integers(4, size=n)
    dish = np.array([seat(int(e)) for e in node])
    X = np.array([atoms[k][0] + np.sqrt(atoms[k][1]) * rng.normal(size=2) for k in dish])
    return X, node, dish


def effective(weights: Any) -> float:
    """Return exp(entropy)."""
    p = np.asarray(weights, dtype=float)
    p = p[p > 0.0] / p.sum()
    return float(np.exp(-np.sum(p * np.log(p))))


def collapse(draws: int) -> None:
    """Print how many components nodes have, in the truth and in fits."""
    print("\n| 800 data from the model | components per node, truth | persistence of the fit | "
          "nodes with 10 data | components per node |\n|---|---|---|---|---|")  # fmt: skip
    for persistence in (0.9, 1.0):
        X, node, dish = simulate(1, 800, persistence, 20.0)
        truth = np.mean([effective(np.bincount(dish[node == e])) for e in node])
        for fit in (0.9, 1.0):
            model = HDPTree(persistence=fit, n_draws=draws, burn_in=draws, n_chains=1, verbose=0,
                            random_state=0, n_jobs=1).fit(X)  # fmt: skip
            found, sizes = [], []
            for draw in model.draws_[:: max(draws // 20, 1)]:
                per_node = np.array([effective(w) for w in draw.node_params["weight"]])
                found.append(np.mean(per_node[draw.assignments]))
                sizes.append(np.sum(draw.n_here >= 10))
            print(f"| persistence {persistence} | {truth:.1f} | {fit} | {np.mean(sizes):.1f} | "
                  f"{np.mean(found):.1f} |", flush=True)  # fmt: skip


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=["moons", "collapse"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    if "moons" in options.what:
        moons(options.seeds, options.draws, options.picture)
    if "collapse" in options.what:
        collapse(options.draws)


if __name__ == "__main__":
    main()
