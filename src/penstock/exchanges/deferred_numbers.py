"""Collects numbers from frames, to be validated later in one batch.

Validating hundreds of texts together takes as long as validating a few one by one. So readers add
the texts they find, and their caller validates all of them at once before it passes the events on.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Raw

from penstock.errors import MalformedLevels
from penstock.market.levels import all_plain_levels, read_levels
from penstock.market.numbers import all_plain, is_plain


class DeferredNumbers:
    """Texts and levels that have yet to be validated."""

    __slots__ = ("levels", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.levels: list[Raw] = []

    def spell(self, numbers: Sequence[Any]) -> list[str | None]:
        """The texts of numbers, to be validated later; None for UNSET."""
        texts = [None if each is UNSET else str(each) for each in numbers]
        self.texts += [each for each in texts if each is not None]
        return texts

    def are_plain(self) -> bool:
        """Whether all are plain numbers; if so, they are discarded.

        False also where only ``problem`` can decide.
        """
        texts, levels = self.texts, self.levels
        if texts:
            if not all_plain(texts):
                return False
            texts.clear()
        if levels:
            if not all_plain_levels(levels):
                return False
            levels.clear()
        return True

    def problem(self) -> str | None:
        """Check one by one; return what is not a plain number, if anything. All are discarded."""
        texts, levels = self.texts.copy(), self.levels.copy()
        self.forget()
        for text in texts:
            if not is_plain(text):
                return f"{text[:40]!r} is not a plain number"
        try:
            for raw in levels:
                read_levels(raw)
        except (MalformedLevels, RecursionError) as error:
            return str(error)
        return None

    def forget(self) -> None:
        """Discard all without validation."""
        self.texts.clear()
        self.levels.clear()
