"""Commands as they are printed on pages: in blocks of shell, and between backticks."""

import re
import shlex
from pathlib import Path

BLOCK = re.compile(r"^ *```(?:bash|sh|console)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def in_blocks(page: Path) -> list[str]:
    """Return the commands of the blocks of a page, without comments, in their order."""
    lines = [
        line for block in BLOCK.findall(page.read_text("utf-8")) for line in block.splitlines()
    ]
    commands = [
        shlex.join(shlex.split(part, comments=True)) for line in lines for part in line.split("&&")
    ]
    return [command for command in commands if command]
