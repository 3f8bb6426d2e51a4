"""Put ``benchmarks/`` in reach, which has the models that trees are compared with."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
