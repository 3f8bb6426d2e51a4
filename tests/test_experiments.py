"""The experiments: what they keep of their results, and the models that they compare with."""

import importlib
import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

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
              "plan": list(figure5.QUICK)}  # fmt: skip
    line = figure5.to_line(result)
    assert json.loads(line, parse_constant=pytest.fail)["likelihood_error"] is None
    path = tmp_path / "scores.jsonl"
    path.write_text(line + "\n" + '{"plan": [1]}' + "\n", encoding="utf-8")
    (found,) = figure5.load(path, figure5.QUICK).items()
    assert found[0] == job
    assert found[1]["likelihood"] == 812.5
    assert math.isnan(found[1]["likelihood_error"])


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
