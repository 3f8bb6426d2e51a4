"""
A table of animals
==================

Thirty animals with fourteen yes-or-no traits, written from common knowledge. ``BernoulliTree`` puts
them into a tree; ``consensus`` picks the draw that is nearest to all others and says how sure its
nodes are.
"""

import pandas as pd

from treestick import BernoulliTree
from treestick.analysis.consensus import consensus, pair_relations

traits = ["hair", "feathers", "eggs", "milk", "airborne", "aquatic", "predator", "teeth",
          "backbone", "lungs", "fins", "legs", "tail", "six_legs"]  # fmt: skip
animals = {
    "bear": "hair milk predator teeth backbone lungs legs",
    "cat": "hair milk predator teeth backbone lungs legs tail",
    "wolf": "hair milk predator teeth backbone lungs legs tail",
    "lion": "hair milk predator teeth backbone lungs legs tail",
    "deer": "hair milk teeth backbone lungs legs tail",
    "horse": "hair milk teeth backbone lungs legs tail",
    "goat": "hair milk teeth backbone lungs legs tail",
    "hamster": "hair milk teeth backbone lungs legs tail",
    "bat": "hair milk airborne teeth backbone lungs legs tail",
    "dolphin": "milk aquatic predator teeth backbone lungs fins tail",
    "seal": "hair milk aquatic predator teeth backbone lungs fins",
    "sparrow": "feathers eggs airborne backbone lungs legs tail",
    "dove": "feathers eggs airborne backbone lungs legs tail",
    "crow": "feathers eggs airborne predator backbone lungs legs tail",
    "hawk": "feathers eggs airborne predator backbone lungs legs tail",
    "duck": "feathers eggs airborne aquatic backbone lungs legs tail",
    "gull": "feathers eggs airborne aquatic predator backbone lungs legs tail",
    "penguin": "feathers eggs aquatic predator backbone lungs legs tail",
    "ostrich": "feathers eggs backbone lungs legs tail",
    "carp": "eggs aquatic teeth backbone fins tail",
    "herring": "eggs aquatic predator teeth backbone fins tail",
    "pike": "eggs aquatic predator teeth backbone fins tail",
    "tuna": "eggs aquatic predator teeth backbone fins tail",
    "shark": "eggs aquatic predator teeth backbone fins tail",
    "frog": "eggs aquatic predator teeth backbone lungs legs",
    "newt": "eggs aquatic predator teeth backbone lungs legs tail",
    "bee": "hair eggs airborne legs six_legs",
    "wasp": "hair eggs airborne legs six_legs",
    "gnat": "eggs airborne legs six_legs",
    "ladybird": "eggs airborne predator legs six_legs",
}
X = pd.DataFrame(
    [[trait in has.split() for trait in traits] for has in animals.values()],
    index=list(animals), columns=traits,
)  # fmt: skip

model = BernoulliTree(burn_in=300, n_draws=300, n_chains=2, random_state=0, verbose=0).fit(X)

# %%
# With so few rows, draws differ a lot. The consensus is the draw that agrees best with the others
# on how pairs of animals are related (same node, one above the other, apart).

found = consensus(model.draws_)
tree = found.tree
names = X.index.to_numpy()
for node in tree:
    print("  " * tree.depth[node], f"node {node}, support {found.support[node]:.2f}:",
          " ".join(names[tree.data_at(node)]) or "-")  # fmt: skip

# %%
# Each node by the traits in which it differs most from its parent.

tree.plot(
    show=["features:4", "animal:9"],
    features=list(X.columns),
    metadata={"animal": list(names)},
    title="Animals",
)

# %%
# Questions about pairs are answered by all draws.

for one, other in [("cat", "lion"), ("seal", "dolphin"), ("cat", "bee")]:
    relation = pair_relations(model.draws_, list(names).index(one), list(names).index(other))
    print(one, other, {name: round(share, 2) for name, share in relation._asdict().items()})
