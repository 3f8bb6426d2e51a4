"""The explorer: one page in the browser, without a network, for a tree and its data.

``page`` assembles the file from ``page.html``, ``style.css`` and the scripts beside it;
``contents`` puts the data into it, ``sprites`` the images; ``inline`` shows the same page in a
notebook.
"""

from treestick.report.explorer.page import make_page, write_page

__all__ = ["make_page", "write_page"]
