"""
Text: docstrings of the standard library
========================================

Functions and classes of ten modules of Python, each with its docstring as a document.
``TopicTree`` finds topics, and a tree of documents by their topics. The name of the module is
metadata, which the model does not see.
"""

import importlib
import inspect

from treestick import TopicTree
from treestick.io import read_texts

MODULES = ["argparse", "calendar", "csv", "datetime", "email.message", "os", "socket", "sqlite3",
           "statistics", "threading"]  # fmt: skip

names, texts, modules = [], [], []
for module in MODULES:
    for name, value in inspect.getmembers(importlib.import_module(module)):
        parts = [value, *vars(value).values()] if inspect.isclass(value) else [value]
        docs = [inspect.getdoc(part) for part in parts if callable(part)]
        text = " ".join(doc for doc in docs if doc)
        if not name.startswith("_") and len(text.split()) >= 25:
            names.append(f"{module}.{name}")
            texts.append(text)
            modules.append(module)
corpus = read_texts(
    texts, ids=names, metadata={"module": modules}, stop_words="english", min_df=4, max_df=0.3
)
print(corpus)

# %%
# Short chains, for a picture in seconds.

model = TopicTree(
    10,
    lda_sweeps=100,
    tree_sweeps=50,
    burn_in=100,
    n_draws=50,
    n_chains=1,
    random_state=0,
    verbose=0,
).fit(corpus)
print(model.topics_table().to_string(float_format="{:.3f}".format))

# %%
# Most documents have a node of their own, so nodes are looked at by the documents at or below them.
# A card has the most common words of all those documents, and the modules that they come from.

model.tree_.plot(
    show=["words:6", "module:3"],
    rows=corpus.counts,
    features=corpus.vocabulary,
    metadata=corpus.metadata,
    min_data=12,
    title="Docstrings",
)

# %%
# Where does a new text belong? At a node whose documents are about the same.

new = read_texts(["Return the date of the first day of the month"], vocabulary=corpus.vocabulary)
print("node:", model.predict(new), "topics:", model.transform(new).round(2))
