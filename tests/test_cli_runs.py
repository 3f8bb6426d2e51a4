"""Commands on runs: what they print and write, exit codes; runs are written by hand."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray

from handmade import make_run
from treestick import cli, load_run
from treestick.cli import signals
from treestick.estimators import choice, commands
from treestick.inputs import InvalidValue
from treestick.io import read_texts
from treestick.store import CannotWrite, RunFolder

Cli = Callable[..., tuple[int, str, str]]
IDS = [f"=row {k}" for k in range(20)]


@pytest.fixture
def treestick(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Give a function that runs the command line: exit code, standard output, standard error."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["treestick", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        output = capsys.readouterr()
        return int(caught.value.code or 0), output.out, output.err

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a run of two chains with six draws each, of data with ids."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    values = np.random.default_rng(0).normal(size=(20, 2))
    make_run(folder, X=pd.DataFrame(values, columns=["legs", "wings"], index=IDS))
    return folder


def test_status(treestick: Cli, run: Path) -> None:
    code, out, _ = treestick("status", run)
    assert code == 0
    assert "GaussianTree: complete" in out
    assert "6/6" in out
    other = RunFolder(run)
    other.claim()
    assert "running, process" in treestick("status", run)[1]
    other.close()
    assert treestick("status", run, "--watch")[0] == 0


def test_diagnose(treestick: Cli, run: Path) -> None:
    code, out, _ = treestick("diagnose", run)
    assert code == 0
    for word in ("R-hat", "ESS bulk", "ESS tail", "MCSE", "nodes", "noise[1]", "Pair agreement"):
        assert word in out
    assert "There are few independent draws" in out
    assert treestick("diagnose", run, "--strict")[0] == 4


def test_newick_json_dot(treestick: Cli, run: Path, tmp_path: Path) -> None:
    model = load_run(run)
    assert treestick("export", run, "--format", "newick", "-o", tmp_path / "t.nwk")[0] == 0
    newick = (tmp_path / "t.nwk").read_text()
    assert newick == model.tree_.to_newick(data_labels=IDS) + "\n"
    assert "'=row 3'" in newick
    code, _, _ = treestick("export", run, "--format", "json", "--draw", "all", "-o", tmp_path / "j")
    assert code == 0
    lines = [json.loads(line) for line in (tmp_path / "j").read_text().splitlines()]
    assert [line["chain"] for line in lines] == [0] * 6 + [1] * 6
    assert lines[7]["assignments"] == model.draws_[7].assignments.tolist()
    assert lines[0]["ids"] == IDS
    treestick("export", run, "--format", "dot", "--draw", "3", "-o", tmp_path / "t.dot")
    dot = (tmp_path / "t.dot").read_text()
    assert dot.startswith("digraph draw_3 {")
    assert dot.count("->") == model.draws_[3].n_nodes - 1


def test_graphml(treestick: Cli, run: Path, tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx")
    path = tmp_path / "t.graphml"
    assert treestick("export", run, "--format", "graphml", "-o", path)[0] == 0
    graph, tree = networkx.read_graphml(path, node_type=int), load_run(run).tree_
    assert sorted(graph.edges) == sorted((int(tree.parent[k]), k) for k in range(1, tree.n_nodes))
    assert graph.nodes[0]["mean[1]"] == tree.node_params["mean"][0, 1]
    code, _, err = treestick("export", run, "--format", "graphml", "--draw", "all", "-o", path)
    assert (code, err.count("\n")) == (2, 1)


@pytest.mark.parametrize(("form", "ending"), [("zarr", "zarr"), ("netcdf", "nc")])
def test_xarray_opens_what_is_exported(
    treestick: Cli, run: Path, tmp_path: Path, form: str, ending: str
) -> None:
    arviz_stats: Any = pytest.importorskip("arviz_stats")
    path = tmp_path / f"draws.{ending}"
    assert treestick("export", run, "--format", form, "--draw", "all", "-o", path)[0] == 0
    model = load_run(run)
    with xarray.open_datatree(path) as tree:  # without any options, and without warnings
        assert arviz_stats.summary(tree, var_names=["noise"]).shape[0] == 2
        trees = tree["trees"].to_dataset()
        first = trees["first_node"].values
        for k in (0, 11):
            rows = slice(first[k], first[k + 1])
            np.testing.assert_array_equal(trees["parent"].values[rows], model.draws_[k].parent)
            np.testing.assert_array_equal(
                trees["mean"].values[rows], model.draws_[k].node_params["mean"]
            )
            np.testing.assert_array_equal(
                trees["assignments"].values[k], model.draws_[k].assignments
            )
        assert trees["datum"].values.tolist() == IDS


def test_pandas_opens_what_is_exported(treestick: Cli, run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    code, _, _ = treestick("export", run, "--format", "parquet", "--draw", "all", "-o", folder)
    assert code == 0
    model = load_run(run)
    data = pd.read_parquet(folder / "data.parquet")
    assert data["id"].tolist() == IDS * 12
    np.testing.assert_array_equal(data[data.draw == 4]["node"], model.draws_[4].assignments)
    nodes = pd.read_parquet(folder / "nodes.parquet")
    np.testing.assert_array_equal(nodes[nodes.draw == 4]["parent"], model.draws_[4].parent)
    scalars = pd.read_parquet(folder / "scalars.parquet")
    assert scalars.shape[0] == 12
    np.testing.assert_array_equal(scalars["gamma"], model._every("gamma"))
    np.testing.assert_array_equal(scalars["noise_1"], model.idata_.posterior.noise[..., 1].stack(
        row=("chain", "draw")))  # fmt: skip


def test_predict_carries_ids(
    treestick: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from treestick.estimators import GaussianTree

    # Likelihoods are compiled code, which other tests are for.
    monkeypatch.setattr(GaussianTree, "score_samples", lambda self, X: np.full(len(X), -1.5))
    monkeypatch.setattr(
        GaussianTree, "predict_proba", lambda self, X: np.tile([0.2, 0.7, 0.1], (len(X), 1))
    )
    new = tmp_path / "new.csv"
    new.write_text("name,legs,wings\n=evil,1,2\nb,3,4\n")
    out = tmp_path / "out.csv"
    assert treestick("predict", run, new, "--id", "name", "-o", out)[0] == 0
    assert out.read_text().splitlines() == [
        "id,node,probability,new_node,log_density",
        "'=evil,1,0.7,0.1,-1.5",
        "b,1,0.7,0.1,-1.5",
    ]


def test_columns_of_new_data_may_stand_in_another_order(
    treestick: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def score_samples(_: Any, X: Any) -> Any:
        seen.append(X)
        return np.zeros(len(X))

    kind = type(load_run(run))
    monkeypatch.setattr(kind, "score_samples", score_samples)
    monkeypatch.setattr(kind, "predict_proba", lambda _, X: np.full((len(X), 3), 1 / 3))
    (tmp_path / "new.csv").write_text("wings,legs\n2,1\n4,3\n")
    assert treestick("predict", run, tmp_path / "new.csv", "-o", tmp_path / "out.csv")[0] == 0
    assert seen[0].to_dict("list") == {"legs": [1.0, 3.0], "wings": [2.0, 4.0]}


def test_columns_that_were_dropped_are_dropped_again(
    treestick: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, path = tmp_path / "run", tmp_path / "new.csv"
    values = np.random.default_rng(0).normal(size=(20, 2))
    make_run(folder, X=pd.DataFrame(values, columns=["legs", "wings"]))
    made = json.loads((folder / "run.json").read_text())
    source = commands.Source("data.csv", id="name", drop=["kind", "place"])
    (folder / "run.json").write_text(json.dumps({**made, "source": source._asdict()}))
    kind = type(load_run(folder))
    monkeypatch.setattr(kind, "score_samples", lambda _, X: np.zeros(len(X)))
    monkeypatch.setattr(kind, "predict_proba", lambda _, X: np.full((len(X), 3), 1 / 3))
    path.write_text("wings,kind,legs,name\n2,bird,1,a\n4,wasp,3,b\n")  # one of those dropped
    assert treestick("predict", folder, path, "-o", tmp_path / "out.csv")[0] == 0
    assert pd.read_csv(tmp_path / "out.csv")["id"].tolist() == ["a", "b"]
    path.write_text("wings,legs\n2,1\n")
    assert treestick("predict", folder, path, "-o", tmp_path / "out.csv")[0] == 0
    path.write_text("wings,legs,tail\n2,1,0\n")
    code, _, err = treestick("predict", folder, path, "-o", tmp_path / "out.csv")
    assert code == 3
    assert "the run has no column 'tail'" in err


def test_a_complete_run_that_is_resumed_says_so(treestick: Cli, tmp_path: Path) -> None:
    path, folder = tmp_path / "data.csv", tmp_path / "run"
    X = pd.DataFrame(np.arange(40.0).reshape(20, 2) ** 0.5, columns=["a", "b"])
    X.to_csv(path, index=False)
    make_run(folder, X=X)
    made = json.loads((folder / "run.json").read_text())
    made["source"] = commands.Source(str(path))._asdict()
    (folder / "run.json").write_text(json.dumps(made))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treestick.estimators.sampled._saved", lambda *_: (6, None))
        code, out, err = treestick("resume", folder)
    assert code == 0, err
    assert "is complete; --draws with more than 6 extends it" in err
    assert "6 + 6 draws; the best tree has 5 nodes, nine in ten draws have 5 to 5" in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["status", "NOWHERE"], 2, "there is no run"),
        (["resume", "RUN"], 2, "the run was begun from Python"),
        (["fit", "DATA", "-o", "RUN"], 2, "holds a run already"),
        (["fit", "DATA", "-o", "NEW", "--model", "oak"], 2, "model='oak' is not one of auto"),
        (["fit", "NOWHERE", "-o", "NEW"], 3, "there is no such file"),
        (["fit", "s3://a/b.npy", "-o", "NEW"], 2, "s3://a/b.npy: a URL is for the workers"),
        (["fit", "DATA", "-o", "NEW", "--id", "x"], 3, "there is no column 'x'; there are a, b"),
        (["fit", "DATA", "-o", "NEW", "--model", "multinomial"], 3, "-2.5 is not a count"),
        (["fit", "DATA", "-o", "NEW", "--draws", "0"], 2, "n_draws=0"),
        (["fit", "DATA", "-o", "NEW", "--draws", "x"], 2, "'x' is not a whole number"),
        (["fit", "DATA", "-o", "NEW", "--max-draws", "9"], 2, "has no effect without --until"),
        (["fit", "DATA", "-o", "NEW", "--until", "fun"], 2, "is not like rhat=1.05"),
        (["fit", "DATA", "-o", "NEW", "--config", "BAD"], 2, "bad.toml: is not TOML"),
        (["fit", "DATA", "-o", "NEW", "--config", "ODD"], 2, "has no such parameter"),
        (["fit", "DATA", "-o", "DATA/x"], 1, "cannot be written"),
        (["predict", "RUN", "DATA", "-o", "out.xls"], 2, "must end in .csv"),
        (["predict", "RUN", "NOWHERE", "-o", "out.csv"], 3, "there is no such file"),
        (["export", "RUN", "--format", "oak"], 2, "format='oak' is not one of newick"),
        (["export", "RUN", "--format", "json", "--draw", "12"], 2, "from 0 to 11"),
        (["export", "RUN", "--format", "json", "--draw", "x"], 2, "from 0 to 11"),
        (["predict", "RUN", "DATA", "-o", "out.csv"], 3, "there is no column 'legs', which the ru"),
        (["predict", "RUN", "MORE", "-o", "out.csv"], 3, "the run has no column 'tail'"),
        (["predict", "RUN", "ARRAY", "-o", "out.csv"], 3, "there are 3 columns; the run has 2"),
        (["export", "RUN", "--format", "parquet", "-o", "DATA"], 2, "cannot be made a folder"),
        (["resume", "RUN", "--draws", "5"], 2, "draws=5 is fewer than the 6 that"),
        (["report", "NOWHERE"], 2, "there is no run"),
        (["diagnose", "CUT"], 5, "readable draws: "),
        (["export", "CUT", "--format", "json"], 5, "is damaged"),
    ],
)
def test_every_slip_gives_one_line_and_its_code(
    treestick: Cli, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    words: list[str], code: int, said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("a,b\n1,-2.5\n3,4\n5,6\n")
    (tmp_path / "more.csv").write_text("legs,wings,tail\n1,2,3\n")
    np.save(tmp_path / "array.npy", np.zeros((2, 3)))
    (tmp_path / "bad.toml").write_text("alpha0 = = 3")
    (tmp_path / "odd.toml").write_text("leaves = 3")
    if "CUT" in words:
        make_run(tmp_path / "cut", n_chains=1)
        path = tmp_path / "cut" / "chain-0.sqlite"
        path.write_bytes(path.read_bytes()[:5000])
    places = {
        "RUN": str(run), "DATA": "data.csv", "NEW": "new", "NOWHERE": "nowhere.csv",
        "BAD": "bad.toml", "ODD": "odd.toml", "DATA/x": "data.csv/x", "CUT": "cut",
        "MORE": "more.csv", "ARRAY": "array.npy",
    }  # fmt: skip
    found, out, err = treestick(*(places.get(word, word) for word in words))
    lines = [line for line in err.splitlines() if "because" not in line]
    assert (found, out, len(lines)) == (code, "", 1), err
    assert said in lines[0]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("X", "name", "reason"),
    [
        (np.array([[0, 1], [1, 1]]), "bernoulli", "0 or 1"),
        (np.array([[0, 3], [1, 1]]), "multinomial", "counts"),
        (np.array([[0, 3.5], [1, 1]]), "gaussian", "fractional"),
        (np.array([[0, -3], [1, 1]]), "gaussian", "negative"),
        (pd.DataFrame({"a": [True, False]}), "bernoulli", "0 or 1"),
        (read_texts(["one text", "another text"]), "topics", "documents"),
    ],
)
def test_the_model_is_chosen_by_the_data(X: Any, name: str, reason: str) -> None:
    chosen = choice.choose(X)
    assert chosen.name == name
    assert reason in chosen.reason


def test_parameters_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("n_draws = 7\nalpha0 = [1, 5]\ngamma = 2.5\nroot_mean = [1.0, 2.0, 3.0]\n")
    found = choice.read_config(path)
    model = choice.make_estimator("gaussian", found)
    assert (model.n_draws, model.alpha0, model.gamma) == (7, (1, 5), 2.5)
    np.testing.assert_array_equal(model.root_mean, [1.0, 2.0, 3.0])
    with pytest.raises(InvalidValue, match="cannot be read"):
        choice.read_config(tmp_path / "nothing.toml")


def test_options_go_to_the_estimator(
    treestick: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []

    def fit(model: Any, X: Any, *rest: Any) -> bool:
        given.append((model, X, rest))
        raise CannotWrite("full")

    monkeypatch.setattr(commands, "fit", fit)
    (tmp_path / "data.csv").write_text("id,a,b\nx,0,1\ny,1,1\n")
    (tmp_path / "run.toml").write_text('gamma = 2\nburn_in = 3\nmodel = "gaussian"\n')
    code, _, err = treestick(
        "fit", tmp_path / "data.csv", "-o", tmp_path / "run", "--draws", 5, "--burn-in", 6,
        "--thin", 2, "--chains", 3, "--seed", 9, "--jobs", 1, "--config", tmp_path / "run.toml",
        "--until", "rhat=1.1,ess=50", "--max-draws", 20,
    )  # fmt: skip
    assert (code, err) == (1, "treestick: full\n")
    (model, X, rest) = given[0]
    assert X.index.tolist() == ["x", "y"]
    wanted = {"n_draws": 5, "burn_in": 6, "thin": 2, "n_chains": 3, "random_state": 9, "n_jobs": 1,
              "gamma": 2, "engine": "processes", "run_dir": str(tmp_path / "run")}  # fmt: skip
    assert type(model).__name__ == "GaussianTree"
    assert model.get_params() == model.get_params() | wanted
    assert rest[:2] == (commands.Goal(1.1, 50.0), 20)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_the_first_draw(
    treestick: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: int
) -> None:
    def fit(*_: Any) -> bool:
        signal.raise_signal(number)
        return False

    monkeypatch.setattr(commands, "fit", fit)
    monkeypatch.setattr(signals, "_code", signals.INTERRUPTED)
    (tmp_path / "data.csv").write_text("a,b\n0,1\n1,1\n")
    found, out, err = treestick("fit", tmp_path / "data.csv", "-o", tmp_path / "run")
    assert (found, out) == (code, "")
    assert "stopped before the first draw; `treestick resume" in err.splitlines()[-1]
