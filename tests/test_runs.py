"""Fits into a run directory: killed and resumed equals uninterrupted, bit for bit."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import treestick
from treestick import io
from treestick.engine.threads import run_chains
from treestick.estimators import (
    LDA,
    BernoulliTree,
    GaussianTree,
    HDPTree,
    MultinomialTree,
    TopicTree,
    commands,
    sampled,
)
from treestick.estimators.sampled import SampledEstimator, Step
from treestick.inputs import InputError, InvalidType, InvalidValue
from treestick.store import RunFolder, RunInUse

QUICK: dict[str, Any] = {
    "n_draws": 4, "burn_in": 4, "thin": 2, "n_chains": 2, "random_state": 0, "verbose": 0,
}  # fmt: skip
CLI = [sys.executable, "-m", "treestick"]
LONG = pytest.mark.long
OTHERS = (GaussianTree, MultinomialTree, HDPTree, LDA, TopicTree)
ALL = pytest.mark.parametrize(
    "kind", [BernoulliTree, *(pytest.param(kind, marks=LONG) for kind in OTHERS)]
)
OF_DOCUMENTS = (LDA, TopicTree)
pytestmark = pytest.mark.filterwarnings("ignore:the chains disagree")


def make_data(kind: type[SampledEstimator], n: int = 40) -> Any:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) + 4.0 * (np.arange(n) % 2)[:, None]
    if kind is BernoulliTree:
        X = (X > 2.0).astype(float)
    elif kind in (MultinomialTree, *OF_DOCUMENTS):
        X = rng.poisson(1.0 + 5.0 * ((np.arange(n)[:, None] + np.arange(3)) % 2)).astype(float)
    names = [f"={k}" for k in range(n)]
    return pd.DataFrame(X, columns=["fins", "legs", "wings"], index=names)


def assert_same(one: Any, other: Any) -> None:
    """Check that two fits have the same draws, bit for bit."""
    runs = [getattr(model.draws_, "_store") for model in (one, other)]  # noqa: B009
    assert runs[0].n_per_chain() == runs[1].n_per_chain()
    for chain, n_draws in enumerate(runs[0].n_per_chain()):
        for k in range(n_draws):
            first, second = (run.chain(chain).read(k)._asdict() for run in runs)
            np.testing.assert_equal(first, second)


@ALL
def test_a_run_goes_on_as_if_it_had_never_stopped(
    kind: type[SampledEstimator], tmp_path: Path
) -> None:
    X, run_dir = make_data(kind), tmp_path / "run"
    whole = kind(**QUICK).fit(X)
    kind(**QUICK | {"n_draws": 1}, run_dir=run_dir).fit(X)
    kind(**QUICK | {"n_draws": 2, "n_chains": 1}, run_dir=run_dir).fit(X)
    model = kind(**QUICK | {"random_state": None}, run_dir=run_dir).fit(X)
    loaded = treestick.load_run(run_dir)
    for other in (model, loaded):
        assert_same(other, whole)
        np.testing.assert_array_equal(other.score_samples(X), whole.score_samples(X))
        assert other.n_iter_ == 12 + 100 * (kind is TopicTree)  # which has sweeps of the tree alone
        assert other.feature_names_in_.tolist() == ["fins", "legs", "wings"]
    assert RunFolder(run_dir).ids() == X.index.tolist()
    assert loaded.get_params() == model.get_params() | {"run_dir": str(run_dir)}
    lines = (run_dir / "log.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert events == ["began", "ended", "resumed", "ended", "resumed", "ended"]
    kind(**QUICK, run_dir=run_dir).fit(X)  # nothing is left to do
    assert_same(treestick.load_run(run_dir), whole)


def test_a_run_without_a_seed_can_be_made_again(tmp_path: Path) -> None:
    X = make_data(BernoulliTree)
    for random_state in (None, np.random.RandomState(3)):
        folders = [tmp_path / f"{random_state is None}-{k}" for k in range(2)]
        first = BernoulliTree(**QUICK | {"random_state": random_state}, run_dir=folders[0]).fit(X)
        number = json.loads((folders[0] / "run.json").read_text())["random_state"]
        again = BernoulliTree(**QUICK | {"random_state": number}, run_dir=folders[1]).fit(X)
        assert_same(first, again)
        assert json.loads((folders[1] / "run.json").read_text())["random_state"] == number


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a run that is complete."""
    folder = tmp_path_factory.mktemp("done") / "run"
    BernoulliTree(**QUICK, run_dir=folder).fit(make_data(BernoulliTree))
    return folder


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"gamma": 2.0}, r"holds a run with gamma=\(0\.5, 10\.0\), not 2\.0; choose another"),
        ({"burn_in": 5}, "burn_in=4, not 5"),
        ({"thin": 1}, "thin=2, not 1"),
        ({"random_state": 7}, "another seed than random_state=7"),
        ({"run_dir": 5}, "run_dir=5 is not a folder"),
        ({"engine": "steam"}, "engine='steam' is not one of"),
        ({"init": "elsewhere"}, "init='elsewhere'"),
    ],
)
def test_a_run_with_other_parameters_is_refused(
    done: Path, changed: dict[str, Any], said: str
) -> None:
    model = BernoulliTree(**QUICK | {"run_dir": done} | changed)
    with pytest.raises((InvalidValue, InvalidType), match=said):
        model.fit(make_data(BernoulliTree))


def test_a_run_with_other_data_or_of_another_class_is_refused(done: Path) -> None:
    with pytest.raises(InvalidValue, match="holds a run with other data"):
        BernoulliTree(**QUICK, run_dir=done).fit(make_data(BernoulliTree, 30))
    with pytest.raises(InvalidValue, match="holds a run with other estimator"):
        GaussianTree(**QUICK, run_dir=done).fit(make_data(BernoulliTree))


def test_a_run_in_use_is_refused(done: Path) -> None:
    other = RunFolder(done)
    other.claim()
    try:
        with pytest.raises(RunInUse, match=f"in use by process {os.getpid()}"):
            BernoulliTree(**QUICK, run_dir=done).fit(make_data(BernoulliTree))
    finally:
        other.close()


def test_no_run_and_no_draws(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="there is no run"):
        treestick.load_run(tmp_path)
    with pytest.raises(InvalidType, match="is not a folder"):
        treestick.load_run(7)


@pytest.mark.parametrize("parameter", [np.array([1.0, 2.0, 3.0]), treestick.Uniform(0.1, 2.0), 0.5])
def test_parameters_survive(tmp_path: Path, parameter: Any) -> None:
    X, run_dir = make_data(BernoulliTree), tmp_path / "run"
    labels = np.arange(40) % 3
    BernoulliTree(**QUICK, run_dir=run_dir, diffusion=parameter, init=labels).fit(X)
    found = treestick.load_run(run_dir)
    np.testing.assert_array_equal(found.diffusion, parameter)
    np.testing.assert_array_equal(found.init, labels)
    found.set_params(n_draws=6).fit(X)
    assert len(found.draws_) == 12


def test_burn_in_is_saved_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, run_dir = make_data(BernoulliTree), tmp_path / "run"
    whole = BernoulliTree(**QUICK).fit(X)
    monkeypatch.setattr(sampled, "SECONDS_UNSAVED", 0.0)
    usual = run_chains

    def stop_early(make_chain: Any, n_sweeps: Any, *rest: Any) -> bool:
        return usual(make_chain, dict.fromkeys(n_sweeps, 3), *rest)

    monkeypatch.setattr(sampled, "run_chains", stop_early)
    with pytest.raises(KeyboardInterrupt):
        BernoulliTree(**QUICK, run_dir=run_dir).fit(X)
    assert RunFolder(run_dir).chain(1).progress() == (0, 3)
    monkeypatch.setattr(sampled, "run_chains", usual)
    assert_same(BernoulliTree(**QUICK, run_dir=run_dir).fit(X), whole)


def test_processes_give_the_same_draws_and_one_may_die(tmp_path: Path) -> None:
    X, run_dir = make_data(BernoulliTree), tmp_path / "run"
    model = DyingTree(**QUICK, run_dir=run_dir, engine="processes")
    with pytest.warns(RuntimeWarning, match=r"chain 1 died: killed by signal 9 \(SIGKILL\)"):
        model.fit(X)
    assert RunFolder(run_dir).n_per_chain() == [4, 1]
    assert model.draws_.chain.tolist() == [0, 0, 0, 0, 1]
    model.set_params(engine="threads").fit(X)
    assert_same(model, BernoulliTree(**QUICK).fit(X))


class DyingTree(BernoulliTree):
    """Its second chain dies in a process of its own, after a draw."""

    def _prepare(self, X: Any) -> sampled.Job:
        job = super()._prepare(X)

        def steps(seed: int, chain: int, *rest: Any) -> Iterator[Step]:
            for step in job.steps(seed, chain, *rest):
                if (chain, step.sweep, self.engine) == (1, 7, "processes"):
                    os.kill(os.getpid(), signal.SIGKILL)
                yield step

        return job._replace(steps=steps)


# -- the command line ------------------------------------------------------------------------------


NAMES = {BernoulliTree: "bernoulli", GaussianTree: "gaussian", MultinomialTree: "multinomial",
         HDPTree: "hdp", LDA: "lda", TopicTree: "topics"}  # fmt: skip


def write_data(kind: type[SampledEstimator], folder: Path) -> Any:
    """Write data for the command line, and return them as Python has them."""
    X = make_data(kind)
    if kind not in OF_DOCUMENTS:
        X.to_csv(folder / "data.csv", index_label="id")
        return X
    rows = [" ".join(["3", *(f"{w}:{n:.0f}" for w, n in enumerate(row))]) for row in X.to_numpy()]
    (folder / "data.ldac").write_text("\n".join(rows))
    return io.read_corpus(folder / "data.ldac")


def command(kind: type[SampledEstimator], folder: Path, n_draws: int) -> list[str]:
    name = "data.ldac" if kind in OF_DOCUMENTS else "data.csv"
    return [
        *CLI, "fit", str(folder / name), "-o", str(folder / "run"), "--model", NAMES[kind],
        "--draws", str(n_draws), "--burn-in", "10", "--thin", "1", "--chains", "2", "--seed", "5",
        "--engine", "threads",
    ]  # fmt: skip


def kill_and_resume(kind: type[SampledEstimator], folder: Path, n_kills: int, n_draws: int) -> None:
    """Kill a fit at random moments and resume it; no acknowledged draw is lost, and all agree."""
    X = write_data(kind, folder)
    whole = kind(n_draws=n_draws, burn_in=10, thin=1, n_chains=2, random_state=5, verbose=0).fit(X)
    moment, kills, before = random.Random(0), 0, [0, 0]
    words = command(kind, folder, n_draws)
    while True:
        done = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if kills < n_kills:
            wait_for_more(folder / "run", sum(before), done)
            time.sleep(moment.random() * 0.2)
            if done.poll() is None:
                done.kill()
                kills += 1
        _, error = done.communicate()
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, error
        now = RunFolder(folder / "run").n_per_chain()
        assert all(b <= n for b, n in zip(before, [*now, 0, 0], strict=False))
        before = now
        words = [*CLI, "resume", str(folder / "run")]
    assert kills == n_kills
    assert_same(treestick.load_run(folder / "run"), whole)


def wait_for_more(folder: Path, n_before: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a run has more draws than before."""
    while process.poll() is None:
        if folder.exists() and sum(RunFolder(folder).n_per_chain()) > n_before:
            return
        time.sleep(0.01)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_killed_and_resumed(tmp_path: Path) -> None:
    kill_and_resume(BernoulliTree, tmp_path, n_kills=3, n_draws=400)


@LONG
@pytest.mark.parametrize("kind", [BernoulliTree, *OTHERS])
def test_killed_and_resumed_twenty_times(kind: type[SampledEstimator], tmp_path: Path) -> None:
    kill_and_resume(kind, tmp_path, n_kills=20, n_draws=4_000)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("number", "engine"),
    [
        (signal.SIGTERM, "threads"),
        pytest.param(signal.SIGINT, "threads", marks=LONG),
        pytest.param(signal.SIGINT, "processes", marks=LONG),
        pytest.param(signal.SIGTERM, "processes", marks=LONG),
    ],
)
def test_signals_keep_the_draws(tmp_path: Path, number: signal.Signals, engine: str) -> None:
    write_data(BernoulliTree, tmp_path)
    words = command(BernoulliTree, tmp_path, 10**6)
    words[-1] = engine
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for_more(tmp_path / "run", 20, process)
        assert commands.status(tmp_path / "run").owner == process.pid
        with pytest.raises(RunInUse, match=f"in use by process {process.pid}"):
            RunFolder(tmp_path / "run").claim()
        process.send_signal(number)
        out, error = process.communicate()
    assert process.returncode == 128 + number, error
    assert b"treestick resume" in error
    assert b"draws; the best tree has" in out
    status = commands.status(tmp_path / "run")
    assert status.owner is None
    assert not status.is_complete
    assert sum(chain.n_draws for chain in status.chains) > 20
    chain = RunFolder(tmp_path / "run").chain(0)
    assert chain.progress()[1] >= 10 + chain.n_draws()


def test_until_stops_at_a_fixed_draw(tmp_path: Path) -> None:
    X, said = make_data(BernoulliTree), list[str]()
    goal = commands.parse_goal("rhat=1.5,ess=1")
    for name in ("one", "two"):
        model = BernoulliTree(**QUICK | {"n_draws": 10}, run_dir=tmp_path / name)
        assert commands.fit(model, X, goal, 40, said.append) is False
    assert len(said) % 2 == 0
    assert said[: len(said) // 2] == said[len(said) // 2 :]
    n = len(treestick.load_run(tmp_path / "one").draws_)
    assert n % 20 == 0
    never = BernoulliTree(**QUICK | {"n_draws": 10}, run_dir=tmp_path / "never")
    commands.fit(never, X, commands.parse_goal("ess=1e9"), 25, said.append)
    assert len(never.draws_) == 40
    for text in ("rhat", "rhat=x", "speed=3", "rhat=-1"):
        with pytest.raises(InputError, match="is not like"):
            commands.parse_goal(text)


def test_opening_a_large_run_is_fast(tmp_path: Path, done: Path) -> None:
    loaded = treestick.load_run(done)
    run, record = RunFolder(tmp_path), loaded._store.chain(0).read(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        began = time.perf_counter()
        for sweep in range(1000):
            run.append(record._replace(sweep=sweep))
        writing = time.perf_counter() - began
        began = time.perf_counter()
        assert len(sampled.read_traces(run)[0]) == 1000
        reading = time.perf_counter() - began
    assert reading < 20 * writing  # a ratio: machines differ
