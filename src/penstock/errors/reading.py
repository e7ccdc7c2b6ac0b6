"""Errors of reading stored data."""

from penstock.errors.base import PenstockError


class NoDataset(PenstockError):
    """There is no data folder and no lake at this place."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        super().__init__(f"{where}: {problem}. Begin with: penstock collect --data-dir FOLDER")


class BadTime(PenstockError):
    """Not a time, or an empty range of time."""


class BadQuery(PenstockError):
    """A query that cannot be answered as it is written. Nothing was changed."""


class TooManyMarkets(PenstockError):
    """More markets are shown at the same time than the server follows."""

    def __init__(self, most: int) -> None:
        super().__init__(
            f"{most} markets are shown at the same time, and no more can be. Close another page, or"
            " try again in some seconds."
        )


class GapError(PenstockError):
    """Data of the range that was read is missing, and ``on_gap`` is ``"raise"``."""


class GapWarning(UserWarning):
    """Data of the range that was read is missing, and ``on_gap`` is ``"warn"``."""
