"""The experiments: what they keep of their results, and the models that they compare with."""

import importlib
import itertools
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from stand_ins import write_codes, write_papers
from treestick.prior import draw_urn
from treestick.report.subject import describe_tree

ROOT = Path(__file__).parents[1]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Return what imports a script, with the modules beside it in reach, as Python does."""

    def load(path: str) -> ModuleType:
        monkeypatch.syspath_prepend(str((ROOT / path).parent))
        return importlib.import_module(Path(path).stem)

    return load


@pytest.fixture
def figure5(load: Callable[[str], ModuleType]) -> ModuleType:
    return load("experiments/nips/figure5.py")


def test_results_are_json_and_come_back(figure5: ModuleType, tmp_path: Path) -> None:
    job = figure5.Job(0, figure5.MULTINOMIAL, 1)
    result = {**job._asdict(), "likelihood": 812.5, "likelihood_error": math.nan,
              "lengths": list(figure5.QUICK.lengths)}  # fmt: skip
    line = figure5.to_line(result)
    assert json.loads(line, parse_constant=pytest.fail)["likelihood_error"] is None
    path = tmp_path / "scores.jsonl"
    longer = figure5.to_line({**result, "lengths": [1]})
    third = figure5.to_line({**result, "fold": 2})  # of the quick plan's two, so not in it
    path.write_text("\n".join([line, longer, third]) + "\n", encoding="utf-8")
    (found,) = figure5.load(path, figure5.QUICK).items()
    assert found[0] == job
    assert found[1]["likelihood"] == 812.5
    assert math.isnan(found[1]["likelihood_error"])


def test_the_papers_moves_begin_with_a_draw_of_the_prior(figure5: ModuleType) -> None:
    model = figure5.make_model(figure5.Job(0, figure5.PAPERS, 20), figure5.QUICK.lengths)
    assert model.schedule == "paper"
    assert model.init.n_data == figure5.N_TRAIN
    assert model.init.n_nodes > 20
    model = figure5.make_model(figure5.Job(0, figure5.TREE, 20), figure5.QUICK.lengths)
    assert (model.schedule, model.init) == ("default", "root")


@pytest.mark.parametrize("name", ["fit_em", "fit_dp"])
def test_mixtures_of_bits_are_densities_and_find_groups(
    name: str, load: Callable[[str], ModuleType]
) -> None:
    mixtures = load("benchmarks/mixtures.py")
    random = np.random.default_rng(0)
    p = np.repeat([[0.1, 0.1, 0.1, 0.9, 0.9], [0.9, 0.9, 0.9, 0.1, 0.1]], 100, axis=0)
    X = (random.random(p.shape) < p).astype(np.float64)
    found = getattr(mixtures, name)(X, 4, 200, random, at_rows=True)
    every = np.array(list(itertools.product([0.0, 1.0], repeat=5)))
    assert np.exp(found.log_densities(every)).sum() == pytest.approx(1.0, abs=1e-9)
    alone = mixtures.independent(X).log_densities(X).mean()
    truth = np.log(0.5) + np.mean(np.log(np.where((p > 0.5) == X, 0.9, 0.1)).sum(axis=1))
    assert alone + 0.5 < truth - 0.05 < found.log_densities(X).mean()


# -- images ----------------------------------------------------------------------------------------


def without_times(report: dict[str, Any]) -> dict[str, Any]:
    del report["tree"]["seconds_per_sweep"]
    for row in report["held_out"]:
        assert row.pop("cpu_seconds") > 0.0
    return report


def test_images_are_put_into_a_tree_and_an_interrupt_changes_nothing(
    load: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = load("experiments/cifar100/cifar100.py")
    write_codes(tmp_path / "codes.npz", 60)
    stages = {command.codes: "fit", command.rivals: "mixtures"}

    def run(name: str, *others: str) -> dict[str, Any]:
        words = ["cifar100.py", "codes.npz", "--images", "thumbs", "--out", name, "--sweeps", "24",
                 "--sizes", "2", "3", "--jobs", "1", *others]  # fmt: skip
        monkeypatch.setattr(sys, "argv", words)
        command.main()
        found = json.loads((tmp_path / name / "report.json").read_text("utf-8"))
        return without_times(found)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    for module, name in stages.items():
        with monkeypatch.context() as patch:
            patch.setattr(module, name, interrupted)
            with pytest.raises(SystemExit) as stopped:
                run("stopped")
        assert stopped.value.code == 130
    assert not (tmp_path / "stopped" / "report.json").exists()
    found = run("stopped")
    assert found == run("whole")
    assert found == run("stopped", "--so-far", "--sweeps", "99", "--split-sweeps", "24")
    papers = run("papers", "--schedule", "paper")
    assert papers["tree"]["nodes"] != found["tree"]["nodes"]
    text = (tmp_path / "papers" / "report.md").read_text("utf-8")
    assert "2 chains with the paper's moves, from a draw of the prior, seed 0" in text
    with pytest.raises(SystemExit, match=r"^cifar100.py: .*nothing"):
        run("nothing", "--so-far")
    models = [row["name"] for row in found["held_out"]]
    assert len(models) == 5
    assert found["held_out"][0]["nodes"] > 1
    purity = found["labels"]["fine"]
    assert purity["purity_of_one_node"] == pytest.approx(1 / 3)
    assert purity["purity"] > 0.8
    for name in ("figure3.pdf", "figure3.png", "figure3-means.png", "traces.png", "tree.html"):
        assert (tmp_path / "whole" / name).stat().st_size > 5000
    text = (tmp_path / "whole" / "report.md").read_text("utf-8")
    assert f"has {found['tree']['nodes']} nodes" in text
    assert "| Bernoulli mixture by EM, 3 components |" in text


def test_a_node_shows_the_mean_of_all_images_at_or_below_it(
    load: Callable[[str], ModuleType],
) -> None:
    pictures = load("experiments/cifar100/pictures.py")
    tree = draw_urn(400, 5.0, 0.5, 0.5, seed=3)
    images = np.random.default_rng(0).integers(0, 256, (400, 2, 3, 3), dtype=np.uint8)
    found = pictures.with_means(describe_tree(tree, images=images))
    shown = found.picture(found.tree)
    enough = tree.n_through >= pictures.LEAST[-1]
    assert 3 < enough.sum() < tree.n_nodes
    for node in tree:
        below = [node in tree.path(at) for at in tree.assignments]
        expected = images[below].mean(axis=0) / 255.0 if enough[node] else 0.0
        assert shown[node] == pytest.approx(expected, abs=1e-6)


# -- draws from the prior, and documents -----------------------------------------------------------


def test_figures_of_the_prior_come_with_closed_forms_that_hold(
    load: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = load("experiments/prior/prior.py")
    monkeypatch.setattr(sys, "argv", ["prior.py", "--out", str(tmp_path), "--draws", "300"])
    command.main()
    rows = (tmp_path / "report.md").read_text("utf-8").splitlines()[-8:]
    for row in rows:
        depth, exact_depth, pairs, exact_pairs = row.removesuffix(" |").split(" | ")[-4:]
        for found, exact in ((depth, exact_depth), (pairs, exact_pairs)):
            mean, error = (float(part) for part in found.split(" ± "))
            assert abs(mean - float(exact)) < 4.5 * error + 0.001
    for name in ("figure1.pdf", "figure1.png", "figure2.pdf", "figure2.png"):
        assert (tmp_path / name).stat().st_size > 5000


def test_papers_are_put_into_a_tree_and_the_report_shows_both_figures(
    load: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    command = load("experiments/nips/nips.py")
    write_papers(tmp_path, 60)
    asked = []

    def compared(data: str, out: Path, plan: Any, processes: int) -> str:  # takes minutes
        asked.append((data, out, plan, processes))
        return "| table |"

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command.figure5, "compare", compared)
    words = ["nips.py", "nips12.npz", "nips12_meta.json", "--quick"]
    monkeypatch.setattr(sys, "argv", [*words, "--folds", "1"])
    with pytest.raises(SystemExit, match="2"):
        command.main()
    assert "--folds: 1: two partitions at least" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*words, "--folds", "3"])
    command.main()
    plan = command.figure5.QUICK._replace(folds=3)
    assert asked == [("nips12.npz", Path("nips/comparison"), plan, 2)]
    report = (tmp_path / "nips" / "report.md").read_text("utf-8")
    assert "| table |" in report
    assert "nodes, depth" in report
    page = (tmp_path / "nips" / "tree" / "tree.html").read_text("utf-8")
    assert "60 papers of NIPS 1-12" in page
    assert (tmp_path / "nips" / "tree" / "figure4.png").stat().st_size > 5000


# -- peers -----------------------------------------------------------------------------------------


def test_a_fit_is_measured_beside_its_peers(load: Callable[[str], ModuleType]) -> None:
    peers = load("benchmarks/peers.py")
    ward = peers.measure("wine", "Ward", None, 0, 1, 1)
    tree = peers.measure("wine", "**GaussianTree**", None, 0, 40, 10)
    assert ward.held_out is None
    assert ward.nodes == 2 * 143 - 1
    assert 0.8 < ward.purity <= 1.0
    assert 0.5 < tree.purity <= 1.0
    assert -25.0 < tree.held_out < -10.0
    assert tree.seconds > 0.0


def test_clusters_are_a_tree_with_the_rest_at_its_root(load: Callable[[str], ModuleType]) -> None:
    tree = load("benchmarks/contestants.py").flat(np.array([4, -1, 7, 4]))
    assert tree.parent.tolist() == [-1, 0, 0]
    assert tree.assignments.tolist() == [1, 0, 2, 1]


def test_medians_are_shown_with_what_is_known(load: Callable[[str], ModuleType]) -> None:
    spread = load("benchmarks/peers.py").spread
    assert spread([3.0, 1.0, 2.0], 1) == "2.0 (1.0\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}3.0)"
    assert spread([2.0, None], 0) == "2"
    assert spread([None], 2) == ""
