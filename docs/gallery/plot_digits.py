"""
Handwritten digits
==================

900 digits of scikit-learn, 8 x 8 pixels, dark or light. The model does not see which digit an image
shows. ``treestick demo`` fits all 1,797 of them, and makes a page to explore the tree.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import homogeneity_score

from treestick import BernoulliTree

images, digits = load_digits(return_X_y=True)
images, digits = images[:900], digits[:900]
model = BernoulliTree(
    binarize=7, diffusion=(0.1, 8.0), burn_in=80, n_draws=20, n_chains=1, random_state=0, verbose=0
).fit(images)
print(f"{model.tree_.n_nodes} nodes; depth {model.tree_.depth.max()}")

# %%
# Each card has the image that the model has of its node, the probability that a pixel is dark, and
# the digits that most of its images show. Nodes with fewer than 30 images at or below them are
# folded into those above.

model.tree_.plot(
    show=["picture", "digit:3"],
    picture=lambda tree: 1.0 - tree.node_params["probability"].reshape(-1, 8, 8),
    metadata={"digit": [str(digit) for digit in digits]},
    min_data=30,
    title="Handwritten digits",
)

# %%
# How far do nodes tell digits apart, although the model never saw one? 1 would be nodes of one
# digit each. Many small nodes make this easier, so it says something only beside their number.

print(f"homogeneity of nodes: {homogeneity_score(digits, model.labels_):.2f}")

# %%
# New images come from the posterior predictive.

figure, panels = plt.subplots(2, 8, figsize=(6, 1.7), layout="constrained")
for ax, image in zip(panels.flat, model.sample(16, random_state=0), strict=True):
    ax.imshow(1 - image.reshape(8, 8), cmap="gray")
    ax.axis("off")
