"""The page as one file: markup, style and scripts with their hashes, and the contents.

Rules:

1. Nothing is asked of any network: the policy is ``default-src 'none'``; images are drawn on
   canvases from what is in the file, so not even ``img-src`` is needed.
2. Scripts and the style sheet are the files of this folder, allowed by their hash. No ``unsafe-*``.
3. What users named is data: JSON in a block that no browser runs, set as text by the scripts.
"""

from __future__ import annotations

import base64
import hashlib
import html
from importlib.resources import files
from pathlib import Path
from string import Template

from treestick.report.explorer.chunks import Chunks, to_json
from treestick.report.explorer.contents import make_contents
from treestick.report.saving import check_output, write_whole
from treestick.report.subject import Subject

SCRIPTS = (
    "contents.js", "elements.js", "tree.js", "layout.js", "view.js", "drawing.js", "outline.js",
    "charts.js", "datum.js", "panel.js", "search.js", "diagnostics.js", "main.js",
)  # fmt: skip
"""In this order; each may use what those before it define."""

ENDINGS = (".html",)


def make_page(subject: Subject) -> str:
    """Return the page as text."""
    folder = files("treestick.report.explorer")
    style = folder.joinpath("style.css").read_text(encoding="utf-8")
    scripts = [folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS]
    chunks = Chunks()
    contents = make_contents(subject, chunks)
    policy = "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_source, scripts))}",
            f"style-src {_source(style)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    template = Template(folder.joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        policy=policy,
        title=html.escape(subject.title),
        style=style,
        contents=to_json(contents),
        chunks=chunks.to_html(),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def write_page(subject: Subject, path: Path) -> int:
    """Write the page to a file, whole or not at all; return its size in bytes."""
    check_output(path, ENDINGS)
    page = make_page(subject).encode("utf-8", errors="replace")
    write_whole(path, lambda aside: Path(aside).write_bytes(page))
    return len(page)


def _source(text: str) -> str:
    """Return the hash by which the policy allows a script or style sheet."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
