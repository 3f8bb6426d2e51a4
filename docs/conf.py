"""The manual: ``sphinx-build -W docs build/manual``.

Examples of the gallery are run if ``TREESTICK_GALLERY=run``; else their pages have no pictures.

Pages are Markdown that reads well in a repository too, so links between them name files. Some pages
stand outside of this folder; ``read_page`` fetches their text and turns links to them around.
"""

import os
import re
from pathlib import Path

from docutils import nodes
from docutils.utils.math import latex2mathml

import treestick

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "benchmarks": "benchmarks/README.md",
    "architecture": "ARCHITECTURE.md",
    "contributing": "CONTRIBUTING.md",
    "security": "SECURITY.md",
    "changelog": "CHANGELOG.md",
}
"""Pages of the manual whose text is elsewhere in the repository."""
END_OF_BLOCK = re.compile(r"\n\n(?=```$)", re.MULTILINE)
"""Doctest needs an empty line before the end of a block; readers do not."""
LINK = re.compile(r"\]\(([\w./]+\.\w+)(#[\w-]+)?\)")

project = "treestick"
author = "the treestick developers"
release = treestick.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
]
exclude_patterns = ["gallery", "static", "templates"]
templates_path = ["templates"]
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
autosummary_generate = True
# A function and a class whose names differ by a capital only need two files everywhere.
autosummary_filename_map = {"treestick.analysis.consensus.Consensus": "consensus_result"}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # keeps the last "_" of names
napoleon_use_param = False
napoleon_use_rtype = False
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 120)]
plot_rcparams = {"savefig.bbox": "tight"}

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "gallery_built",
    "within_subsection_order": "FileNameSortKey",
    "plot_gallery": os.environ.get("TREESTICK_GALLERY", "") == "run",
    "abort_on_example_error": True,
    "capture_repr": (),
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
}

html_math_renderer = "mathml"
html_theme = "pydata_sphinx_theme"
html_static_path = ["static"]
html_css_files = ["manual.css"]
html_title = f"treestick {release}"
html_theme_options = {
    "show_prev_next": True,
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    # The tables of this page are wide.
    "secondary_sidebar_items": {"**": ["page-toc"], "peers": []},
}
html_sourcelink_suffix = ""
html_show_sourcelink = False
html_copy_source = False


def read_page(app, docname, source):
    """Fetch the text of a page from outside, and have links name pages of the manual."""
    del app
    path = ROOT / OUTSIDE.get(docname, f"docs/{docname}.md")
    if path.suffix != ".md" or not path.exists():
        return
    if docname in OUTSIDE:
        source[0] = path.read_text(encoding="utf-8")
    pages = {(ROOT / outside).resolve(): page for page, outside in OUTSIDE.items()}

    def turn(match):
        target = (path.parent / match[1]).resolve()
        anchor = match[2] or ""
        if target in pages:
            return f"]({pages[target]}.md{anchor})"
        if target.is_relative_to(ROOT / "docs"):
            return f"]({target.relative_to(ROOT / 'docs').as_posix()}{anchor})"
        return match[0]

    source[0] = LINK.sub(turn, END_OF_BLOCK.sub("\n", source[0]))


def skip_foreign(app, what, name, member, skip, options):
    """Leave out what classes have from scikit-learn: it is described there."""
    del app, what, name, options
    return True if str(getattr(member, "__module__", "")).startswith("sklearn") else skip


def write_formula(writer, node):
    """Write a formula as MathML, which browsers draw by themselves: the manual works offline."""
    is_block = isinstance(node, nodes.math_block)
    formula = latex2mathml.tex2mathml(node.astext(), as_block=is_block)
    writer.body.append(f'<div class="formula">{formula}</div>' if is_block else formula)
    raise nodes.SkipNode


def setup(app):
    """Connect what this file adds to Sphinx."""
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    app.connect("source-read", read_page)
    app.connect("autodoc-skip-member", skip_foreign)
