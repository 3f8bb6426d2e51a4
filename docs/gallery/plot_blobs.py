"""
Gaussian blobs
==============

Thirteen blobs in ten dimensions, made by a tree: a root, three children, and three children of
each. Every node has twenty data, the inner ones too. ``GaussianTree`` is given the data alone.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from treestick import GaussianTree

rng = np.random.default_rng(0)
parents = [-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
centres = np.zeros((13, 10))
for node in range(1, 13):
    centres[node] = centres[parents[node]] + 2.0 * rng.normal(size=10)
truth = np.repeat(np.arange(13), 20)
X = centres[truth] + 0.5 * rng.normal(size=(260, 10))

model = GaussianTree(burn_in=200, n_draws=100, n_chains=2, random_state=0, verbose=0).fit(X)
tree = model.tree_
print(f"agreement of nodes and blobs: {adjusted_rand_score(truth, tree.assignments):.2f}")
print(tree)

# %%
# The blobs are found, and data sit at inner nodes. Are they joined as they were made? Each node is
# named after the blob that most of its data come from.

blob = {k: np.bincount(truth[tree.data_at(k)]).argmax() for k in tree if tree.n_here[k]}
found = {frozenset((blob[k], blob.get(tree.parent[k]))) for k in blob if k > 0}
made = {frozenset((k, parents[k])) for k in range(1, 13)}
print(f"{len(found & made)} of 12 edges are those of the truth")

# %%
# In the plane of the first two principal components: data, coloured by their node in ``tree_``, and
# the means of the nodes, with lines from parents to children.

plane = PCA(2).fit(X)
points, means = plane.transform(X), plane.transform(tree.node_params["mean"])
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
ax.scatter(*points.T, c=tree.assignments, cmap="tab20", s=12)
for node in range(1, tree.n_nodes):
    ax.plot(*means[[tree.parent[node], node]].T, color="black", linewidth=0.8)
ax.scatter(*means[0], marker="s", color="black", zorder=3, label="root")
ax.set(xlabel="first component", ylabel="second component", title="Data and the tree of means")
ax.legend()

# %%
# New data: each has a probability for every node of ``tree_``, and a last one for a node that
# nobody has visited.

for name, row in {"centre of blob 4": centres[4], "far from everything": centres[4] + 20}.items():
    p = model.predict_proba(row[None])[0]
    print(f"{name}: node {p[:-1].argmax()} with {p[:-1].max():.2f}, a new one with {p[-1]:.2f}")
