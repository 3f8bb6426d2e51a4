"""The explorer inside a notebook."""

from __future__ import annotations

import html

from treestick.report.explorer.page import make_page
from treestick.report.subject import describe_tree
from treestick.tree import Tree
from treestick.tree.text import headline

LARGEST_INLINE = 3_000_000
"""Characters; notebooks keep what they show, and grow with each."""
MOST_NODES_INLINE = 20_000


def to_html(tree: Tree) -> str:
    """Return the explorer in a frame of its own, or text where it would be too large."""
    title = html.escape(headline(tree))
    page = make_page(describe_tree(tree)) if tree.n_nodes <= MOST_NODES_INLINE else None
    if page is None or len(page) > LARGEST_INLINE:
        return (
            f"<figure><figcaption>{title}; too large to be shown here as a whole</figcaption>"
            f"<pre>{html.escape(tree.to_text())}</pre></figure>"
        )
    return (
        f'<iframe title="{title}" sandbox="allow-scripts" srcdoc="{html.escape(page)}" '
        'width="100%" height="560" style="border:1px solid #8884;border-radius:8px"></iframe>'
    )
