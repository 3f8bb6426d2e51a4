"""Topic models compared on held-out documents, in Python and on the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test_cli import Cli, run
from treestick import LDA, TopicTree, io
from treestick.inputs import InvalidValue
from treestick.report.topic_scores import compare


@pytest.fixture
def treestick(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    return lambda *arguments: run(monkeypatch, capsys, *arguments)


def write_corpus(path: Path, n: int = 40) -> Path:
    """Write documents of two kinds, over 24 words, as lda-c."""
    rng = np.random.default_rng(0)
    lines = []
    for d in range(n):
        drawn = rng.multinomial(30, np.full(12, 1 / 12))
        pairs = [f"{w + 12 * (d % 2)}:{drawn[w]}" for w in np.flatnonzero(drawn)]
        lines.append(f"{len(pairs)} {' '.join(pairs)}\n")
    path.write_text("".join(lines))
    return path


def test_scores_of_folds(tmp_path: Path) -> None:
    corpus = io.read_corpus(write_corpus(tmp_path / "x.ldac"))
    fitting: dict[str, Any] = {
        "burn_in": 20, "n_draws": 3, "thin": 2, "random_state": 0, "verbose": 0,
    }  # fmt: skip
    models = {"one": LDA(1, **fitting), "two": LDA(2, **fitting)}
    models["tree"] = TopicTree(2, n_chains=1, lda_sweeps=20, tree_sweeps=10, **fitting)
    scoring: dict[str, Any] = {"n_train": 25, "n_folds": 2, "n_pseudo": 500}
    rows = list(compare(corpus, models, **scoring))
    assert [(r.fold, r.model) for r in rows] == [
        (fold, model) for fold in range(2) for model in ("multinomial", "one", "two", "tree")
    ]
    for row in rows:
        # Two kinds of twelve words: 12 if a model tells them apart, 24 if not.
        expected = 12 if row.model in ("two", "tree") else 24
        assert row.scores.completion == pytest.approx(expected, rel=0.15)
        assert row.scores.likelihood == pytest.approx(expected, rel=0.15)
    assert rows[2].coherence > rows[1].coherence
    again = compare(corpus, {name: models[name] for name in ("one", "two")}, **scoring)
    assert list(again)[1:3] == rows[1:3]


def test_command_line(treestick: Cli, tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "x.ldac")
    words = tmp_path / "words.txt"
    words.write_text("\n".join(f"w{k}" for k in range(24)))
    code, out, _ = treestick(
        "evaluate", str(path), "-k", "2", "--pseudo", "100", "--burn-in", "10", "--draws", "2",
        "--vocabulary", str(words), "--sampler", "instantiated", "--no-tree",
    )  # fmt: skip
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "Corpus: 40 documents, 24 words, 1200 tokens"
    assert [line.split()[0] for line in lines[1:]] == ["fold", "0", "0"]
    assert "LDA, 2 topics" in lines[3]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nothing"], 3, "nothing: there is no such file or folder"),
        (["x.ldac", "-k", "3", "-k", "0"], 2, "n_topics=0"),
        (["x.ldac", "--train", "40"], 2, "n_train=40"),
        (["x.ldac", "--folds", "0"], 2, "n_folds=0"),
        (["x.ldac", "--format", "xml"], 3, "format='xml' is not one of folder, jsonl"),
        (["x.ldac", "--format", "docword"], 3, "x.ldac, line 1"),
        (["x.ldac", "--sampler", "best"], 2, "sampler='best'"),
        (["x.ldac", "--text", "body"], 3, "text='body' has no effect"),
        (["x.ldac", "--pseudo", "none"], 2, "'none' is not a whole number"),
        (["bytes.csv"], 3, "bytes.csv: byte 0xff at offset 0"),
        (["odd.pdf"], 3, "odd.pdf: the name does not say its format"),
    ],
)
def test_slips_get_one_line(
    treestick: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "x.ldac")
    (tmp_path / "bytes.csv").write_bytes(b"\xff")
    (tmp_path / "odd.pdf").touch()
    found, out, err = treestick("evaluate", *arguments)
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1


def test_forms_go_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("cat dog")
    assert io.read_corpus(tmp_path).ids == ["a.txt"]
    (tmp_path / "x.csv").write_text("body\ncat dog\n")
    corpus = io.read_corpus(tmp_path / "x.csv", text="body", stop_words=["cat"])
    assert corpus.vocabulary == ["dog"]
    (tmp_path / "docword.txt").write_text("1\n2\n1\n1 2 3\n")
    assert io.read_corpus(tmp_path / "docword.txt").counts.toarray().tolist() == [[0, 3]]
    slips: list[tuple[Path, dict[str, Any]]] = [
        (tmp_path, {"text": "body"}),
        (tmp_path / "x.csv", {"vocabulary": ["a"]}),
    ]
    for path, given in slips:
        with pytest.raises(InvalidValue, match="has no effect on format"):
            io.read_corpus(path, **given)
