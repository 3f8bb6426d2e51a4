"""``python -m treestick`` is ``treestick``."""

from treestick.cli import main

if __name__ == "__main__":
    main()
