"""The tree of docs/reading.md, drawn."""

import matplotlib.pyplot as plt

from treestick import Tree

tree = Tree([-1, 0, 1, 1, 0], assignments=[0] * 3 + [2] * 6 + [3] * 4 + [4] * 7)
figure, ax = plt.subplots(figsize=(3.2, 2.6))
tree.plot(ax=ax, labels=True)
