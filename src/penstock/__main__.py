"""``penstock`` and ``python -m penstock``: the command line."""

from penstock.signals import catch_hangups


def main() -> None:
    """Run a command."""
    catch_hangups()
    from penstock.cli import main as run  # noqa: PLC0415 - which takes most of a second

    run()


if __name__ == "__main__":
    main()
