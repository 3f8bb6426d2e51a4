"""Figures 1 and 2 of the paper, and how often trees of its eight settings are what they should be.

    python experiments/prior/prior.py --out prior-figures

writes ``figure1`` and ``figure2`` as PDF and PNG, and ``report.md``: for each setting of figure 2
the size of the tree that is drawn, and over many draws of the same setting the mean number of
nodes, and the mean depth of a datum and the share of pairs at one node beside their closed forms.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from treestick import Tree, prior
from treestick.report.prior_figures import PAPER_SETTINGS, Setting, figure_1, figure_2
from treestick.report.saving import save

N_DATA = 50
DEEPEST = 2000
"""Levels that the closed forms are summed over."""


class Measured(NamedTuple):
    """Means over draws of one setting, with standard errors."""

    nodes: tuple[float, float]
    depth: tuple[float, float]
    """Of a datum."""
    together: tuple[float, float]
    """Share of pairs of data that are at one node."""


def mean_depth(setting: Setting) -> float:
    """Return the expected depth of a datum: the sum over d of P(depth > d)."""
    alpha = setting.alpha0 * setting.decay ** np.arange(DEEPEST)
    return float(np.cumprod(alpha / (1.0 + alpha)).sum())


def share_together(setting: Setting) -> float:
    """Return P(two data share a node): 2/((1+a)(2+a)) + a/(a+2) P(decay a)/(1+gamma)."""
    share = 0.0
    for level in range(DEEPEST - 1, -1, -1):
        a = setting.alpha0 * setting.decay**level
        share = 2.0 / ((1.0 + a) * (2.0 + a)) + a / (a + 2.0) * share / (1.0 + setting.gamma)
    return share


def measure(setting: Setting, seeds: range) -> Measured:
    """Return means over trees of these seeds."""
    trees = [
        prior.draw_urn(N_DATA, setting.alpha0, setting.decay, setting.gamma, seed) for seed in seeds
    ]
    nodes = [float(tree.n_nodes) for tree in trees]
    depth = [float(tree.depth[tree.assignments].mean()) for tree in trees]
    return Measured(_mean(nodes), _mean(depth), _mean([_together(tree) for tree in trees]))


def _together(tree: Tree) -> float:
    pairs = float((tree.n_here * (tree.n_here - 1)).sum())
    return pairs / (tree.n_data * (tree.n_data - 1))


def _mean(values: list[float]) -> tuple[float, float]:
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def table(n_draws: int) -> Iterator[str]:
    """Yield the rows of the report's table."""
    yield (
        "| alpha0, decay, gamma | drawn: nodes, depth | nodes, mean | depth of a datum | "
        "closed form | pairs together | closed form |"
    )
    yield "|---|---|---|---|---|---|---|"
    for k, setting in enumerate(PAPER_SETTINGS, start=1):
        drawn = prior.draw_urn(N_DATA, setting.alpha0, setting.decay, setting.gamma, setting.seed)
        found = measure(setting, range(1_000_000 * k, 1_000_000 * k + n_draws))  # others each
        yield (
            f"| {setting.alpha0:g}, {setting.decay:g}, {setting.gamma:g} | {drawn.n_nodes}, "
            f"{drawn.depth.max()} | {found.nodes[0]:.1f} ± {found.nodes[1]:.1f} | "
            f"{found.depth[0]:.3f} ± {found.depth[1]:.3f} | {mean_depth(setting):.3f} | "
            f"{found.together[0]:.3f} ± {found.together[1]:.3f} | {share_together(setting):.3f} |"
        )


def main() -> None:
    """Draw, measure and write."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--out", type=Path, default=Path("prior-figures"))
    parser.add_argument("--draws", type=int, default=2000, help="trees of each setting")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, figure in (("figure1", figure_1()), ("figure2", figure_2(N_DATA))):
        for ending in ("pdf", "png"):
            save(figure, options.out / f"{name}.{ending}")
    lines = "\n".join(table(options.draws))
    text = (
        "# Draws from the prior\n\n![Figure 1](figure1.png)\n\n![Figure 2](figure2.png)\n\n"
        f"{N_DATA} data, {options.draws:,} draws of each setting (± standard error):\n\n{lines}\n"
    )
    (options.out / "report.md").write_text(text, "utf-8")
    print(lines)


if __name__ == "__main__":
    main()
