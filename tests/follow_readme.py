"""Follow the README with a table of one's own, to a tree and a report.

    python tests/follow_readme.py my.csv folder

puts the table into the folder under the name that the README has for a reader's data, and runs
those commands of the README, as they are printed, that have to do with it. It needs to know nothing
of the table, and treestick has to be installed. What comes out is said at the end.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from printed import in_blocks

README = Path(__file__).parent.parent / "README.md"
DATA, RUN = "data.csv", "my-run"


def commands() -> list[str]:
    """Return the commands of the README on a reader's data, in their order."""
    return [
        command
        for command in in_blocks(README)
        if command.startswith("treestick ") and (DATA in command.split() or RUN in command.split())
    ]


def follow(table: Path, folder: Path) -> tuple[Path, Path]:
    """Run the commands in a folder; return the files with the tree and with the report."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(table, folder / DATA)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands():
        print(f"$ {command}", flush=True)
        subprocess.run(
            shlex.split(command), cwd=folder, check=True, env={**os.environ, "PATH": path}
        )
    (tree,) = folder.glob("*.nwk")
    return tree, folder / RUN / "report.html"


def main() -> None:
    """Parse, follow and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path, help="a CSV file")
    parser.add_argument("folder", type=Path, help="where to work; made if needed")
    options = parser.parse_args()
    tree, report = follow(options.table, options.folder)
    for what, path in (("the tree", tree), ("the report", report)):
        print(f"{what}: {path.resolve()}, {path.stat().st_size / 1e3:.0f} KB")


if __name__ == "__main__":
    main()
