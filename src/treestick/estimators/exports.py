"""A fitted run in the formats of other programs.

Trees of different sizes are ragged: all nodes of all draws stand one after the other, and
``first_node`` says where those of a draw begin. Nothing is padded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treestick.inputs import InvalidValue, shown
from treestick.io.outputs import aside, make_folder, require, write_table, write_text
from treestick.tree import Tree
from treestick.tree.exports import COLUMNS

if TYPE_CHECKING:
    import pandas as pd
    import xarray

BEST, ALL = "best", "all"


def pick_draws(model: Any, which: str) -> list[int]:
    """Return the positions of draws: the best one, all, or one by its number."""
    if which == BEST:
        return [int(np.argmax(model._every("complete_data")))]
    if which == ALL:
        return list(range(len(model.draws_)))
    if not which.isdecimal() or int(which) >= len(model.draws_):
        raise InvalidValue(
            f"draw={shown(which)} is not {BEST!r}, {ALL!r} or a number from 0 to "
            f"{len(model.draws_) - 1}"
        )
    return [int(which)]


def export(model: Any, ids: Sequence[str] | None, form: str, which: str, path: Path) -> None:
    """Write draws of a fitted model to a file or, for some formats, a folder."""
    if form not in FORMATS:
        raise InvalidValue(f"format={shown(form)} is not one of {', '.join(FORMATS)}")
    if not hasattr(model, "tree_"):
        if form not in OF_ALL_MODELS:
            raise InvalidValue(
                f"format={form}: {type(model).__name__} has no trees; there are "
                f"{', '.join(OF_ALL_MODELS)}"
            )
        OF_ALL_MODELS[form](model.idata_, path)
        return
    FORMATS[form](model, ids, pick_draws(model, which), path)


def _newick(model: Any, ids: Sequence[str] | None, draws: list[int], path: Path) -> None:
    write_text((model.draws_[k].to_newick(data_labels=ids) for k in draws), path)


def _json(model: Any, ids: Sequence[str] | None, draws: list[int], path: Path) -> None:
    def one(position: int) -> str:
        tree: Tree = model.draws_[position]
        beside = {"draw": position, "chain": int(model.draws_.chain[position]), "ids": ids}
        return json.dumps({**tree.to_dict(), **beside}, allow_nan=False)

    write_text(map(one, draws), path)


def _graphml(model: Any, ids: Sequence[str] | None, draws: list[int], path: Path) -> None:
    networkx = require("networkx", "GraphML")
    if len(draws) > 1:
        raise InvalidValue("format=graphml holds one tree; choose --draw best or a number")
    graph = networkx.DiGraph()
    table = _nodes(model.draws_[draws[0]])
    data = _data_of_nodes(model.draws_[draws[0]], ids)
    for node, row in enumerate(table.to_dict("records")):
        graph.add_node(node, **{str(name): value for name, value in row.items()})
        graph.nodes[node]["data"] = " ".join(data[node])
    graph.add_edges_from((above, k) for k, above in enumerate(table["parent"]) if above >= 0)
    with aside(path) as new:
        networkx.write_graphml(graph, new)


def _dot(model: Any, ids: Sequence[str] | None, draws: list[int], path: Path) -> None:
    def lines() -> Iterator[str]:
        for position in draws:
            tree = model.draws_[position]
            yield f"digraph draw_{position} {{"
            for node, names in enumerate(_data_of_nodes(tree, ids)):
                tip = " ".join(names).replace("\\", "\\\\").replace('"', '\\"')
                yield f'  {node} [label="{node}: {tree.n_here[node]} here", tooltip="{tip}"];'
            yield from (f"  {tree.parent[k]} -> {k};" for k in range(1, tree.n_nodes))
            yield "}"

    write_text(lines(), path)


def _data_of_nodes(tree: Tree, ids: Sequence[str] | None) -> list[list[str]]:
    names = [str(n) for n in range(tree.n_data)] if ids is None else ids
    found: list[list[str]] = [[] for _ in range(tree.n_nodes)]
    for name, node in zip(names, tree.assignments.tolist(), strict=True):
        found[node].append(name)
    return found


def _nodes(tree: Tree) -> pd.DataFrame:
    return tree.to_pandas().reset_index()


def _parquet(model: Any, ids: Sequence[str] | None, draws: list[int], path: Path) -> None:
    import pandas as pd

    require("pyarrow", "Parquet")
    nodes, data = [], []
    for position in draws:
        tree = model.draws_[position]
        place = {"chain": model.draws_.chain[position], "draw": position}
        nodes.append(_nodes(tree).assign(**place))
        names = np.arange(tree.n_data).astype(str) if ids is None else np.asarray(ids, dtype=object)
        data.append(pd.DataFrame({**place, "id": names, "node": tree.assignments}))
    make_folder(path)
    write_table(pd.concat(nodes, ignore_index=True), path / "nodes.parquet")
    write_table(pd.concat(data, ignore_index=True), path / "data.parquet")
    write_table(_scalars(model.idata_), path / "scalars.parquet")


def _scalars(idata: xarray.DataTree) -> pd.DataFrame:
    """Return the scalars of all draws, a row for each; vectors take a column per component."""
    frame: pd.DataFrame | None = None
    for group in ("posterior", "sample_stats"):
        for name, values in idata[group].data_vars.items():
            if values.dims[:2] != ("chain", "draw"):
                continue
            stacked = values.stack(row=("chain", "draw")).transpose("row", ...)
            if frame is None:
                frame = stacked["row"].to_index().to_frame(index=False)
            flat = stacked.values.reshape(stacked.sizes["row"], -1)
            for k in range(flat.shape[1]):
                frame[str(name) if values.ndim == 2 else f"{name}_{k}"] = flat[:, k]
    assert frame is not None
    return frame


def _parquet_of_scalars(idata: xarray.DataTree, path: Path) -> None:
    make_folder(path)
    write_table(_scalars(idata), path / "scalars.parquet")


def with_trees(model: Any, ids: Sequence[str] | None, draws: list[int]) -> xarray.DataTree:
    """Return ``idata_`` with another group, ``trees``: the nodes of draws, and nodes of data."""
    import xarray

    trees = [model.draws_[k] for k in draws]
    first = np.concatenate([[0], np.cumsum([tree.n_nodes for tree in trees])])
    columns: dict[str, Any] = {
        name: ("node", np.concatenate([getattr(tree, name) for tree in trees]), {"meaning": says})
        for name, says in COLUMNS.items()
    }
    for name in trees[0].node_params:
        parts = [tree.node_params[name] for tree in trees]
        if len({part.shape[1:] for part in parts}) == 1:
            axes = [f"{name}_axis_{k}" for k in range(1, parts[0].ndim)]
            columns[name] = (("node", *axes), np.concatenate(parts))
    nodes = np.stack([tree.assignments.astype(np.int32) for tree in trees])
    dataset = xarray.Dataset(
        {
            **columns,
            "first_node": (
                "edge", first, {"meaning": "rows of draw k are first_node[k]:first_node[k + 1]"}
            ),
            "assignments": (
                ("tree", "datum"), nodes, {"meaning": "node of each datum, from 0 in each draw"}
            ),
            "chain": ("tree", model.draws_.chain[draws]),
            "position": ("tree", np.asarray(draws)),
        },
        coords={"datum": np.arange(nodes.shape[1]).astype(str) if ids is None else list(ids)},
    )  # fmt: skip
    tree: xarray.DataTree = model.idata_.copy()
    tree["trees"] = xarray.DataTree(dataset)
    return tree


def _write_zarr(idata: xarray.DataTree, path: Path) -> None:
    require("zarr", "Zarr")
    if path.exists():
        raise InvalidValue(f"output={str(path)!r} exists; choose another name")
    with aside(path) as new:
        # Format 2: that of version 3 has no standard yet for texts, nor for what xarray looks for
        # first when it opens a store, consolidated metadata.
        plain = idata.map_over_datasets(_with_plain_texts)
        plain.to_zarr(new, zarr_format=2, consolidated=True)


def _with_plain_texts(dataset: xarray.Dataset) -> xarray.Dataset:
    """Return a data set whose texts have each its length, not all that of the longest."""
    texts = {name: v.astype(object) for name, v in dataset.coords.items() if v.dtype.kind == "U"}
    return dataset.assign_coords(texts)


def _write_netcdf(idata: xarray.DataTree, path: Path) -> None:
    require("h5netcdf", "netCDF")
    with aside(path) as new:
        idata.to_netcdf(new, engine="h5netcdf")


def _zarr(model: Any, ids: Sequence[str] | None, draws: list[int], path: Path) -> None:
    _write_zarr(with_trees(model, ids, draws), path)


def _netcdf(model: Any, ids: Sequence[str] | None, draws: list[int], path: Path) -> None:
    _write_netcdf(with_trees(model, ids, draws), path)


FORMATS: dict[str, Callable[[Any, Sequence[str] | None, list[int], Path], None]] = {
    "newick": _newick,
    "json": _json,
    "graphml": _graphml,
    "dot": _dot,
    "parquet": _parquet,
    "zarr": _zarr,
    "netcdf": _netcdf,
}
OF_ALL_MODELS: dict[str, Callable[[xarray.DataTree, Path], None]] = {
    "parquet": _parquet_of_scalars,
    "zarr": _write_zarr,
    "netcdf": _write_netcdf,
}
"""Formats that hold the scalars of models without trees."""
