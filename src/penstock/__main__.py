"""``penstock`` and ``python -m penstock``: the command line."""

import sys

from penstock.signals import INTERRUPTED, catch_hangups


def main() -> None:
    """Run a command."""
    catch_hangups()
    try:
        from penstock.cli import main as run  # noqa: PLC0415 - which takes most of a second
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)

    run()


if __name__ == "__main__":
    main()
