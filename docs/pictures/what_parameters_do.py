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
    height = max(layout.height for layout in layouts) + MARGIN
    inches = 9 * (height + MARGIN) / sum(widths)
    figure, panels = plt.subplots(1, len(values), figsize=(9, inches), width_ratios=widths)
    figure.subplots_adjust(0.0, 0.0, 1.0, 1.0, wspace=0.02)
    for ax, tree, layout, width, value in zip(panels, trees, layouts, widths, values, strict=True):
        draw_layout(ax, tree, layout)
        middle = (layout.left + layout.right) / 2
        ax.set(xlim=(middle - width / 2, middle + width / 2), ylim=(height, -MARGIN))
        ax.set_title(f"{name} = {value:g}", fontsize=10)
    others = ", ".join(f"{other} = {USUAL[other]:g}" for other in USUAL if other != name)
    panels[0].text(
        0.0, -0.02, f"sixty data; {others}", fontsize=9, va="top", transform=panels[0].transAxes
    )
