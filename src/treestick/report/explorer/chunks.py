"""Data inside the page: pieces that the browser unpacks when it needs them.

A piece is compressed (zlib) and written in base64 into a script element of a type that no browser
runs. Base64 and JSON with escaped signs hold nothing that could end the element.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

TYPES = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "f4": np.float32}

Reference = dict[str, Any]
"""What a script needs to find and read a piece."""


class Chunks:
    """The pieces of one page."""

    def __init__(self) -> None:
        self._pieces: list[str] = []

    @property
    def size(self) -> int:
        """Characters of all pieces."""
        return sum(map(len, self._pieces))

    def add_bytes(self, content: bytes, compress: bool = True) -> int:
        """Add a piece, and return its number."""
        packed = zlib.compress(content, 9) if compress else content
        self._pieces.append(base64.b64encode(packed).decode("ascii"))
        return len(self._pieces) - 1

    def add_json(self, content: Any) -> int:
        """Add lists and numbers; what is not a finite number becomes null."""
        return self.add_bytes(to_json(content).encode("ascii"))

    def add_array(self, values: npt.NDArray[Any]) -> Reference:
        """Add an array of whole numbers >= 0 in the smallest type, or of floats."""
        if values.dtype.kind == "f":
            name = "f4"
        else:
            most = int(values.max(initial=0))
            name = "u1" if most < 2**8 else "u2" if most < 2**16 else "u4"
        stored = values.astype(np.dtype(TYPES[name]).newbyteorder("<"))
        return {"chunk": self.add_bytes(stored.tobytes()), "type": name}

    def to_html(self) -> str:
        """Return the elements that hold the pieces."""
        return "\n".join(
            f'<script type="text/plain" id="chunk-{number}">{piece}</script>'
            for number, piece in enumerate(self._pieces)
        )


def to_json(content: Any) -> str:
    """Return strict JSON in ASCII without the signs that mean something to a reader of HTML."""
    text = json.dumps(_finite(content), separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _finite(content: Any) -> Any:
    if isinstance(content, np.ndarray):
        return _finite(content.tolist())
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float):
        return content if np.isfinite(content) else None
    return content.item() if isinstance(content, np.generic) else content
