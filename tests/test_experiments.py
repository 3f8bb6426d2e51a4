"""The experiments: what they keep of their results."""

import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType

import pytest

PATH = Path(__file__).parents[1] / "experiments" / "nips" / "figure5.py"


@pytest.fixture(scope="module")
def figure5() -> ModuleType:
    found = importlib.util.spec_from_file_location("figure5", PATH)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


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
