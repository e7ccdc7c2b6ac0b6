"""``penstock`` and ``python -m penstock``: the command line."""

import sys

from penstock.signals import INTERRUPTED, catch_hangups


def main() -> None:
    """Run a command."""
    catch_hangups()
    try:
        _import_structlog()
        from penstock.cli import main as run  # noqa: PLC0415 - which takes a fifth of a second
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)

    run()


def _import_structlog() -> None:
    """Import it without rich, with which it would draw tracebacks: a sixth of a command's start."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]
    try:
        import structlog  # noqa: F401, PLC0415
    finally:
        del sys.modules["rich"]


if __name__ == "__main__":
    main()
