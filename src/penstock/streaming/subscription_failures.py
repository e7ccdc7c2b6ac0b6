"""Counts and reports streams that an exchange refused or did not acknowledge.

All failures are counted. The first, second, fourth and so on of a stream are reported, until it is
acknowledged: so the log names each stream, but not every half minute.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from penstock.streaming.dialect import Refusal
from penstock.streaming.wanted import StreamKey


class SubscriptionFailure(NamedTuple):
    """Streams whose subscription failed for one reason."""

    kind: Literal["refused", "unanswered"]
    code: int | str
    words: str
    stream_keys: tuple[StreamKey, ...]
    times: int
    """Failures in a row, of the stream with the most."""


class SubscriptionFailures:
    """The failures of one connection."""

    def __init__(self, key_of: Callable[[str], StreamKey | None]) -> None:
        self._key_of = key_of
        self.totals: Counter[StreamKey] = Counter()
        """How often each stream was ever refused."""
        self.unreported: list[SubscriptionFailure] = []
        self._refused: Counter[str] = Counter()
        """How often a stream was refused since it was last acknowledged."""
        self._unanswered: Counter[str] = Counter()
        """Likewise, how often it was not acknowledged in time."""

    @property
    def unanswered(self) -> list[str]:
        """Streams that were not acknowledged in time, and not since."""
        return list(self._unanswered)

    @property
    def refused(self) -> set[StreamKey]:
        """Streams that were refused, and not acknowledged since."""
        return set(self._stream_keys(self._refused))

    @property
    def open(self) -> bool:
        """Whether there are unanswered streams."""
        return bool(self._unanswered)

    def refuse(self, refusal: Refusal, names: Sequence[str]) -> int:
        """Note a refusal of these streams; return the most refusals in a row of any."""
        self.totals.update(self._stream_keys(names))
        return self._note(SubscriptionFailure("refused", refusal.code, refusal.words, (), 0), names)

    def miss(self, names: Sequence[str], within_s: float) -> None:
        """Note that these streams were not acknowledged in time."""
        words = f"no acknowledgement within {within_s:g} s"
        self._note(SubscriptionFailure("unanswered", "silent", words, (), 0), names)

    def times(self, names: Iterable[str]) -> int:
        """Return the most times in a row that any of these was not acknowledged in time."""
        return max((self._unanswered[name] for name in names), default=0)

    def clear(self, names: Iterable[str]) -> None:
        """Reset the counts of streams that were acknowledged or removed."""
        for name in names:
            self._refused.pop(name, None)
            self._unanswered.pop(name, None)

    def _note(self, failure: SubscriptionFailure, names: Sequence[str]) -> int:
        counts = self._refused if failure.kind == "refused" else self._unanswered
        if failure.kind == "refused":
            for name in names:
                self._unanswered.pop(name, None)  # a refusal is an answer
        counts.update(names)
        times = max((counts[name] for name in names), default=1)
        # Powers of two have one bit.
        worth = tuple(name for name in names if counts[name].bit_count() == 1)
        if worth or not names:
            self.unreported.append(
                failure._replace(stream_keys=self._stream_keys(worth), times=times)
            )
        return times

    def _stream_keys(self, names: Iterable[str]) -> tuple[StreamKey, ...]:
        return tuple(stream_key for name in names if (stream_key := self._key_of(name)) is not None)
