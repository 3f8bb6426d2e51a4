"""Section 5 of the paper: the images of CIFAR-100 in a tree, figure 3, and a report with peers.

    python experiments/cifar100/cifar100.py cifar100_codes.npz --images thumbs --out cifar100

The file has ``packed`` (50,000 codes of 256 bits, eight to a byte), ``coarse`` and ``fine``
(numbers of classes, which no model sees), ``coarse_names`` and ``fine_names``. The folder of
images, which may be left out, has sheets of 32 x 32 tiles in the order of the codes.

Priors and number of sweeps are the paper's; with ``--schedule paper`` the moves of data, sticks and
order are as well. The command may be stopped at any time (Ctrl-C, kill, a power cut) and goes on
when it is given again; ``--so-far`` reports what there is by then, also while another process goes
on. In the folder ``--out`` are then

    report.md, report.json    what was found, in words and for programs
    figure3.pdf, figure3.png  the tree, three subtrees, and a part of each
    figure3-means.pdf, .png   the same with the mean of all images at or below each node
    tree.html                 the whole tree, to be explored in a browser
    traces.png                log likelihood, nodes, depth and time of each chain
    run, run-split            draws of the trees: of all images, and of nine tenths of them
    results                   what is there already; remove it to have it done again
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import account
import codes
import pictures
import rivals
from treestick import BernoulliTree, Tree, load_run
from treestick.cli import signals
from treestick.inputs import InvalidValue
from treestick.io import read_images
from treestick.report.explorer import write_page
from treestick.report.subject import describe

SIZES = (20, 50, 100, 200, 400)
"""Components of mixtures."""
TILE = 32


def reproduce(options: argparse.Namespace) -> None:
    """Fit, compare, draw and write, in an order that shows something soon."""
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    data = codes.read(options.codes)
    n_data, n_bits = data.X.shape
    train, test = codes.split(n_data)
    split_sweeps = options.split_sweeps or options.sweeps
    n_sweeps, n_chains = options.sweeps, options.chains
    if options.so_far:
        model = load_run(out / "run")
        n_chains = model.n_chains
        n_sweeps = model.burn_in + model.thin * (len(model.draws_) // n_chains)
    asked = {
        "n_data": n_data, "n_bits": n_bits, "sweeps": n_sweeps, "chains": n_chains,
        "seed": options.seed, "split_sweeps": split_sweeps, "n_fitted": train.size,
        "n_held_out": test.size, "data": hashlib.sha256(data.X.tobytes()).hexdigest(),
        "schedule": options.schedule,
    }  # fmt: skip
    say(f"a tree of {n_data:,} images, {n_sweeps:,} sweeps ...")
    if not options.so_far:
        model = codes.fit(
            data.X, out / "run", n_sweeps, n_chains, options.seed, options.jobs, options.schedule
        )
    with_images = {**asked, "images": str(options.images)}
    size = codes.kept(
        out / "results" / "pictures.json", with_images, lambda: draw(model, data, options)
    )
    say(f"figure 3 and {out / 'tree.html'} ({size / 1e6:.1f} MB)")
    results = out / "results"
    agreement = codes.kept(
        results / "agreement.json", asked, lambda: account.measure_agreement(model)
    )
    labels = codes.kept(
        results / "labels.json",
        asked,
        lambda: account.measure_labels(model.tree_, data.X, data.labels, test),
    )
    say(f"held-out density: {train.size:,} images to fit, {test.size:,} to predict ...")
    found = [
        codes.kept(
            results / "tree.json",
            asked,
            lambda: rivals.tree(
                data.X[train], data.X[test], out / "run-split", split_sweeps, options.seed,
                options.jobs, options.schedule,
                Tree(model.tree_.parent, model.tree_.assignments[train]),
            ),
        )
    ]  # fmt: skip
    for row in rivals.mixtures(
        data.X[train], data.X[test], results, options.sizes, options.steps, asked["data"]
    ):
        say(f"{row['name']}: {row['held_out']:.3f}")
        found.append(row)
    report = {
        "asked": asked,
        "conditions": account.conditions(),
        "tree": account.measure_tree(model, codes.cpu_per_sweep(out / "run")),
        "agreement": agreement,
        "held_out": found,
        "labels": labels,
    }
    text = json.dumps(report, allow_nan=False, indent=1)
    (out / "report.json").write_text(text + "\n", "utf-8")
    (out / "report.md").write_text(account.to_markdown(report), "utf-8")
    say(f"wrote {out / 'report.md'}")


def draw(model: BernoulliTree, data: codes.Codes, options: argparse.Namespace) -> int:
    """Draw traces and figure 3, and write the page; return its size in bytes."""
    n_data = data.X.shape[0]
    pictures.draw_traces(model, options.out / "traces.png")
    images = None if options.images is None else read_images(options.images, n_data, TILE)
    subject = describe(
        model, data.X, title=f"{n_data:,} images of CIFAR-100", images=images, metadata=data.labels
    )
    show = ["coarse:3", "fine:3"] if images is None else ["images:10"]
    pictures.draw_figure3(subject, show, options.out)
    if images is not None:
        means = pictures.with_means(subject)
        pictures.draw_figure3(
            means, ["picture"], options.out, "figure3-means", pictures.PAGES_OF_MEANS
        )
    return write_page(subject, options.out / "tree.html")


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Parse, and stop in good order when asked to."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("codes", type=Path, help="cifar100_codes.npz")
    parser.add_argument("--images", type=Path, help="folder with sheets of tiles")
    parser.add_argument("--out", type=Path, default=Path("cifar100"))
    parser.add_argument("--sweeps", type=int, default=4000)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument(
        "--schedule", choices=("default", codes.PAPERS_MOVES), default="default",
        help="the paper's moves of the tree, from a draw of the prior, or with all others",
    )  # fmt: skip
    parser.add_argument(
        "--so-far", action="store_true", help="do not go on; report the draws that there are"
    )
    parser.add_argument(
        "--split-sweeps", type=int, help="of the chain for held-out density; as many if not given"
    )
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="components of mixtures"
    )
    parser.add_argument("--steps", type=int, default=200, help="of a mixture, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, help="threads; all cores if not given")
    options = parser.parse_args()
    with signals.terminable():
        try:
            reproduce(options)
        except KeyboardInterrupt:
            say("stopped; the same command goes on from here")
            sys.exit(signals.exit_code())
        except InvalidValue as error:
            sys.exit(f"cifar100.py: {error}")


if __name__ == "__main__":
    main()
