"""Numbers that were read from frames and not looked at yet.

Whether a text is a plain number can be told for hundreds of them in the time it takes for a few.
So readers hand in what they find here, and whoever called them looks at all of it at once, before
anybody else sees the events.
"""

from msgspec import Raw

from penstock.errors import MalformedLevels
from penstock.market.levels import all_plain_levels, read_levels
from penstock.market.numbers import all_plain, is_plain


class DeferredNumbers:
    """Texts and levels to be looked at."""

    __slots__ = ("levels", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.levels: list[Raw] = []

    def are_plain(self) -> bool:
        """Whether all are plain numbers, and forgotten; False, too, if only a closer look tells."""
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
        """Look closely: what is not a plain number, if anything is. Then all are forgotten."""
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
        """Begin anew: what was read is of no interest any more."""
        self.texts.clear()
        self.levels.clear()
