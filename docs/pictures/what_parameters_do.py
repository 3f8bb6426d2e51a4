"""Trees from the prior: one parameter varies in each figure, the others stay."""

import matplotlib.pyplot as plt

from treestick import prior
from treestick.report.drawing import draw_layout
from treestick.report.layout import lay_out

USUAL = {"alpha0": 5.0, "decay": 0.5, "gamma": 0.5}
MARGIN = 2.0


def vary(name: str, values: list[float], seed: int) -> None:
    """Draw one tree of sixty data for each value, all to one scale."""
    trees = [prior.draw_urn(60, **{**USUAL, name: value}, seed=seed) for value in values]
    layouts = [lay_out(tree) for tree in trees]
    widths = [max(layout.right - layout.left, 12.0) + MARGIN for layout in layouts]
    figure, panels = plt.subplots(
        1, len(values), figsize=(9, 3.4), width_ratios=widths, layout="constrained"
    )
    for ax, tree, layout, value in zip(panels, trees, layouts, values, strict=True):
        draw_layout(ax, tree, layout)
        ax.set_anchor("N")
        ax.set_title(f"{name} = {value:g}", fontsize=10)
    others = ", ".join(f"{other} = {USUAL[other]:g}" for other in USUAL if other != name)
    figure.supxlabel(f"sixty data; {others}", fontsize=9)
