"""What is in the page, in the order in which the browser reads it.

Data are numbered anew: by their node in the first tree, the most typical of a node first. So what
belongs to one node lies in one piece or two, and the first few are those to show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from treestick.analysis.convergence import HIGHEST_RHAT
from treestick.analysis.diagnosis import Diagnosis
from treestick.report.columns import Column
from treestick.report.explorer.chunks import Chunks, Reference
from treestick.report.explorer.sprites import add_sheets, make_tiles
from treestick.report.subject import Shown, Subject
from treestick.report.typical import (
    LEAST_TOLD,
    Contrasts,
    contrasts,
    main_parameter,
    typicality,
)
from treestick.tree import Tree

TEXTS_PER_CHUNK = 256
LONGEST_TEXT = 2_000
N_CONTRASTS = 12
N_COVERS = 4
MOST_COVERS = 4_096
"""Images that stand for nodes: so many for a node, and so many in all."""
BYTES_FOR_COVERS = 1_500_000
BYTES_FOR_PICTURES = 500_000
"""Of the nodes of one tree."""
BYTES_FOR_DRAWS = 4_000_000
"""Compressed; beyond, further draws are left out."""
MOST_TRACE_POINTS = 500
MOST_IN_A_ROW = 16
"""Features of a row that are written out."""

Integers = npt.NDArray[np.int64]


def make_contents(subject: Subject, chunks: Chunks) -> dict[str, Any]:
    """Add what is to be unpacked later to ``chunks``; return what is needed at once."""
    order = page_order(subject)
    names = subject.parameter_names
    trees, note = _trees(subject, order, chunks)
    contents: dict[str, Any] = {
        "title": subject.title,
        "note": note,
        "nData": subject.tree.n_data,
        "trees": trees,
        "features": None if names is None else chunks.add_json(names),
        "kind": subject.parameter_kind,
        "order": chunks.add_array(order),
        "ids": None if subject.ids is None else chunks.add_json([subject.ids[n] for n in order]),
        "texts": _texts(subject, order, chunks),
        "images": None,
        "covers": None,
        "columns": [_column(column, order, chunks) for column in subject.columns],
        "diagnostics": _diagnostics(subject.diagnosis),
    }
    if subject.images is not None:
        tiles = make_tiles(subject.images[order])
        contents["images"] = add_sheets(chunks, tiles)
        covers = _covers(subject.tree, order)
        chosen = tiles._replace(images=tiles.images[covers])
        contents["covers"] = {
            "data": chunks.add_array(covers),
            "sheet": add_sheets(chunks, chosen, BYTES_FOR_COVERS),
        }
    return contents


def page_order(subject: Subject) -> Integers:
    """Return the data by node from the top left to the right, the most typical first."""
    tree = subject.tree
    place = np.empty(tree.n_nodes, dtype=np.int64)
    waiting, number = [0], 0
    while waiting:
        node = waiting.pop()
        place[node] = number
        number += 1
        waiting.extend(tree.children(node)[::-1].tolist())
    return np.lexsort((-typicality(tree, subject.rows), place[tree.assignments]))


def _trees(subject: Subject, order: Integers, chunks: Chunks) -> tuple[list[Reference], str]:
    """Return the trees, as many draws as there is room for, and a sentence on which."""
    listed: list[Reference] = []
    size, n_left_out = 0, 0
    for shown in subject.trees:
        is_draw = bool(listed) and shown.name != "consensus"
        if is_draw and size > BYTES_FOR_DRAWS:
            n_left_out += 1
            continue
        before = chunks.size
        listed.append(_tree(subject, shown, order, chunks))
        size += chunks.size - before
    note = subject.note
    if n_left_out:
        note = note.replace("are in this page", "were to be in this page", 1)
        note += f" {n_left_out} of these are left out to keep it small."
    return listed, note.strip()


def _tree(subject: Subject, shown: Shown, order: Integers, chunks: Chunks) -> Reference:
    tree = shown.tree
    structure: dict[str, Any] = {
        "parent": tree.parent,
        "here": tree.n_here,
        "mass": _rounded(tree.mass, 4),
        "support": None if shown.support is None else np.round(shown.support, 3),
        "contrasts": None,
    }
    is_first = shown is subject.trees[0]
    named = subject.parameter_names is not None
    found = shown.contrasts
    if found is None and (named or (is_first and subject.picture is None)):
        found = contrasts(tree, N_CONTRASTS if is_first else N_CONTRASTS // 2, subject.rows)
    if found is not None:
        structure["contrasts"] = {
            "feature": found.feature,
            "value": _rounded(found.value),
            "parent": _rounded(found.at_parent),
            "more": (found.score > 0).astype(np.int64),
            "directions": _directions(found) if main_parameter(tree) == "mean" else None,
            "place": None if found.place is None else _rounded(found.place),
            "parentPlace": None if found.parent_place is None else _rounded(found.parent_place),
        }
    reference: Reference = {
        "name": shown.name,
        "nNodes": tree.n_nodes,
        "structure": chunks.add_json(structure),
        "assignments": chunks.add_array(tree.assignments[order]),
        "pictures": None,
    }
    if subject.picture is not None:
        pictures = np.clip(np.asarray(subject.picture(tree), dtype=np.float64), 0.0, 1.0)
        tiles = make_tiles(np.round(255 * pictures).astype(np.uint8))
        reference["pictures"] = add_sheets(chunks, tiles, BYTES_FOR_PICTURES)
    return reference


def _directions(found: Contrasts) -> Integers:
    """Return 1 where real numbers are above the parent's, -1 where below, 0 if hardly either."""
    return np.where(np.abs(found.score) < LEAST_TOLD, 0, np.sign(found.score)).astype(np.int64)


def _rounded(values: npt.NDArray[np.float64], digits: int = 3) -> npt.NDArray[np.float64]:
    """Return numbers with so many digits that count: they take less room."""
    size = np.where((values == 0.0) | ~np.isfinite(values), 1.0, np.abs(values))
    unit = 10.0 ** (digits - 1 - np.floor(np.log10(size)))
    return np.asarray(np.round(values * unit) / unit)


def _covers(tree: Tree, order: Integers) -> Integers:
    """Return the places of the data that stand for nodes: the most typical, nodes by their size."""
    sizes = tree.n_here
    at = tree.assignments[order]
    starts = {int(node): int(first) for node, first in zip(*np.unique(at, return_index=True))}  # noqa: B905
    places: list[int] = []
    for node in np.argsort(-tree.n_through, kind="stable").tolist():
        first = starts.get(node, 0)
        places += range(first, first + min(N_COVERS, int(sizes[node])))
        if len(places) >= MOST_COVERS:
            break
    return np.sort(np.array(places[:MOST_COVERS], dtype=np.int64))


def _texts(subject: Subject, order: Integers, chunks: Chunks) -> Reference | None:
    """Return what is to be read of each datum: its text, or else its row in words."""
    write = _writer(subject)
    if write is None:
        return None
    pieces = []
    for start in range(0, order.size, TEXTS_PER_CHUNK):
        listed = [write(int(n)) for n in order[start : start + TEXTS_PER_CHUNK]]
        pieces.append(chunks.add_json([_cut(text) for text in listed]))
    return {"perChunk": TEXTS_PER_CHUNK, "chunks": pieces, "rows": subject.texts is None}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …"


def _writer(subject: Subject) -> Callable[[int], str] | None:
    if subject.texts is not None:
        return subject.texts.__getitem__
    rows = subject.rows
    if rows is None or (subject.images is not None and subject.features is None):
        return None  # rows of numbered pixels say less than the image
    return lambda n: row_in_words(subject, rows, n)


def row_in_words(subject: Subject, rows: Any, n: int) -> str:
    """Return the features of a row that are not 0, the largest first where they are many."""
    if hasattr(rows, "tocoo"):
        row = rows[[n]].tocoo()
        features, values = row.coords[1], row.data
    else:
        values = np.asarray(rows[n])
        features = np.arange(values.size)
        are_bits = bool(np.all((values == 0) | (values == 1)))
        if values.dtype.kind != "f" or are_bits or values.size > MOST_IN_A_ROW:
            features = np.flatnonzero(values)
            values = values[features]
    n_more = features.size - MOST_IN_A_ROW
    if n_more > 0:
        largest = np.argsort(-np.abs(values.astype(np.float64)), kind="stable")[:MOST_IN_A_ROW]
        features, values = features[largest], values[largest]
    only_ones = bool(np.all(values == 1))
    named = [subject.feature_name(int(feature)) for feature in features]
    parts = (
        named
        if only_ones
        else [f"{name} {float(v):.4g}" for name, v in zip(named, values, strict=True)]
    )
    return ", ".join(parts) + (f" and {n_more:,} more" if n_more > 0 else "")


def _column(column: Column, order: Integers, chunks: Chunks) -> Reference:
    lengths = np.diff(column.starts)[order]
    starts = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    codes = column.codes[np.repeat(column.starts[:-1][order], lengths) + within]
    return {
        "name": column.name,
        "ordered": column.ordered,
        "names": chunks.add_json(column.names),
        "starts": chunks.add_array(starts),
        "codes": chunks.add_array(codes),
        "values": None if column.values is None else chunks.add_array(column.values[order]),
        "all": np.bincount(column.codes, minlength=len(column.names)),
    }


def _diagnostics(diagnosis: Diagnosis | None) -> Reference | None:
    if diagnosis is None:
        return None
    n_draws = diagnosis.sweep.size
    kept = np.unique(np.linspace(0, n_draws - 1, min(MOST_TRACE_POINTS, n_draws)).astype(int))
    return {
        "verdict": diagnosis.verdict.grade,
        "lines": diagnosis.verdict.lines,
        "highestRhat": HIGHEST_RHAT,
        "nDraws": n_draws,
        "sweep": diagnosis.sweep[kept],
        "traces": [
            {
                "name": row.name,
                "values": _rounded(diagnosis.traces[row.name][:, kept], 7),
                "rhat": row.rhat,
                "apart": not (np.isnan(row.rhat) or np.isfinite(row.rhat)),
                "ess": row.ess_bulk,
            }
            for row in diagnosis.rows
        ],
    }
