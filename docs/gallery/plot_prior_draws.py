"""
Draws from the prior
====================

Trees of 100 data each, drawn from the urn. Circles are nodes, hollow ones hold no data of their
own; squares are data.
"""

import matplotlib.pyplot as plt

from treestick import prior

settings = [
    {"alpha0": 1.0, "decay": 0.5, "gamma": 0.3},
    {"alpha0": 10.0, "decay": 0.5, "gamma": 0.3},
    {"alpha0": 10.0, "decay": 0.5, "gamma": 2.0},
]
figure, panels = plt.subplots(1, 3, figsize=(10, 4.5), width_ratios=[1, 2, 4], layout="constrained")
for ax, setting in zip(panels, settings, strict=True):
    tree = prior.draw_urn(100, **setting, seed=3)
    tree.plot(ax=ax)
    ax.set_title("\n".join(f"{name} {value:g}" for name, value in setting.items()), fontsize=9)

# %%
# One draw says little. Over 500 draws, ``alpha0`` moves data down, and ``gamma`` adds nodes
# without moving them.


def mean_over_draws(alpha0, gamma, n_draws=500):
    """Return the mean depth of data and the mean number of nodes with data."""
    depth, n_nodes = 0.0, 0.0
    for seed in range(n_draws):
        tree = prior.draw_urn(100, alpha0=alpha0, decay=0.5, gamma=gamma, seed=seed)
        depth += tree.depth[tree.assignments].mean() / n_draws
        n_nodes += (tree.n_here > 0).sum() / n_draws
    return depth, n_nodes


print("alpha0  gamma  mean depth  nodes with data")
for alpha0 in (1.0, 10.0):
    for gamma in (0.3, 2.0):
        depth, n_nodes = mean_over_draws(alpha0, gamma)
        print(f"{alpha0:6g}  {gamma:5g}  {depth:10.2f}  {n_nodes:15.1f}")

# %%
# A tree is a value: it can be read, measured and written.

tree = prior.draw_urn(20, alpha0=2.0, decay=0.5, gamma=0.5, seed=7)
print(tree)
print(tree.to_newick())
log_p = prior.log_probability(tree, alpha0=2.0, decay=0.5, gamma=0.5)
print(f"log probability of this tree: {log_p:.1f}")
