"""Trees: the flat node table of the samplers, and the read-only ``Tree`` that users hold.

``table`` holds the compiled functions over columns; ``public`` the class, which needs none of them,
so that it can be imported, read back and drawn without compiling anything; ``exports`` and ``text``
turn it into what other programs and people read.
"""

from treestick.tree.public import Tree

__all__ = ["Tree"]
