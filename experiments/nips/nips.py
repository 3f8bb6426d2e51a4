"""Section 6 of the paper: a tree of all papers (figure 4), and its comparison with LDA (figure 5).

    python experiments/nips/nips.py nips12.npz nips12_meta.json --out nips [--quick]

runs ``figure4.py`` and ``figure5.py``, which say what the files have, into the folders
``nips/tree`` and ``nips/comparison``, and writes ``nips/report.md``, which shows both. A command
that was stopped goes on when it is given again. ``--quick``, ``--folds``, ``--topics`` and
``--processes`` are of the comparison, as for ``figure5.py``.
"""

import argparse
from pathlib import Path

import figure4
import figure5


def main() -> None:
    """Run both, and write what they found."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("tokens", help="nips12.npz")
    parser.add_argument("about", help="nips12_meta.json")
    parser.add_argument("--out", type=Path, default=Path("nips"))
    figure5.add_options(parser)
    options = parser.parse_args()
    tree, comparison = options.out / "tree", options.out / "comparison"
    found = figure4.main([options.tokens, options.about, "--out", str(tree)])
    plan = figure5.make_plan(options)
    lines = figure5.compare(options.tokens, comparison, plan, options.processes)
    text = (
        f"# Papers of NIPS 1-12\n\n## Figure 4\n\n![The tree](tree/figure4.png)\n\n{found}\n\n"
        "The whole tree: [tree.html](tree/tree.html).\n\n## Figure 5\n\nPerplexity per word, means "
        "over partitions and their standard deviations; lower is better.\n\n"
        f"![Perplexity](comparison/figure5.png)\n\n{lines}\n"
    )
    (options.out / "report.md").write_text(text, "utf-8")
    print(f"wrote {options.out / 'report.md'}")


if __name__ == "__main__":
    main()
