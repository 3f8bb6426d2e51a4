"""How deep data go: the closed form, for some alpha0 and decay."""

import matplotlib.pyplot as plt
import numpy as np


def depth_law(alpha0: float, decay: float, n_levels: int) -> np.ndarray:
    """Return P(depth = d) for d = 0, 1, ..."""
    alpha = alpha0 * decay ** np.arange(n_levels)
    reach = np.concatenate([[1.0], np.cumprod(alpha / (1.0 + alpha))[:-1]])
    return reach / (1.0 + alpha)


figure, panels = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True, layout="constrained")
settings = [[(0.5, 0.5), (5.0, 0.5), (50.0, 0.5)], [(5.0, 0.1), (5.0, 0.5), (5.0, 0.9)]]
for ax, choices, title in zip(panels, settings, ["decay = 0.5", "alpha0 = 5"], strict=True):
    for (alpha0, decay), mark in zip(choices, "os^", strict=True):
        name = f"alpha0 = {alpha0:g}" if "decay" in title else f"decay = {decay:g}"
        ax.plot(depth_law(alpha0, decay, 13), f"-{mark}", markersize=4, label=name)
    ax.set(title=title, xlabel="depth of a datum")
    ax.legend(frameon=False)
panels[0].set_ylabel("prior probability")
