"""How long ``import treestick`` takes, and a first (compiling) and a second draw in a process."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 5
DRAW = "from treestick import prior; prior.draw_urn(50, 5.0, 0.5, 0.2, 1001)"


def run(code: str, **environment: str) -> float:
    """Return the seconds that a new Python takes to run ``code``."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **environment})
    return time.perf_counter() - start


def main() -> None:
    """Print the table."""
    print("| what | seconds (median) | times `import numpy` |")
    print("|---|---|---|")
    numpy = statistics.median(run("import numpy") for _ in range(ROUNDS))
    print(f"| `import numpy` | {numpy:.2f} | 1.0 |")
    with tempfile.TemporaryDirectory() as cache:
        cold = run(DRAW, TREESTICK_CACHE_DIR=cache)
        print(f"| a draw, compiled | {cold:.2f} | {cold / numpy:.1f} |")
        for name, code in (("a draw, cached", DRAW), ("`import treestick`", "import treestick")):
            times = [run(code, TREESTICK_CACHE_DIR=cache) for _ in range(ROUNDS)]
            median = statistics.median(times)
            print(f"| {name} | {median:.2f} | {median / numpy:.1f} |")


if __name__ == "__main__":
    main()
