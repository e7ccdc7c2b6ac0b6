"""Records as they were appended, and the same as a list: whoever takes them must do the same."""

from collections.abc import Sequence
from typing import Any

from tests.compiled.frames import Chance
from tests.compiled.gathered import Taps

from penstock import compiled
from penstock.storage.log import Stored
from penstock.storage.log.keys import Stream

_FIELDS = ("topic", "number", "record")


class _Side:
    """Taps and a packer that get the records in one of the two forms."""

    def __init__(self, most: int) -> None:
        assert compiled.Packer is not None
        self.taps = Taps()
        self.beginnings: dict[str, bytes] = {}
        self.numbers: dict[str, int] = {}
        self._packer = compiled.Packer(
            sample=Stored(Stream("", "", ""), "", 0, b"", b"", ""),
            fields=tuple(getattr(Stored, name) for name in _FIELDS),
            beginnings=self.beginnings,
            numbers=self.numbers,
            batch_beginning=b"batch",
            most=most,
            most_in_batch=2_000,
        )

    def take(self, records: Sequence[Stored]) -> tuple[Any, ...]:
        """Take records; what came of it."""
        packed = self._packer.pack(records)
        if records:
            self.taps.taps(records)
        return packed, dict(self.numbers), len(self.taps.received), self.taps.received[-3:]


class BothForms:
    """Takes what a writer returned, in both forms."""

    def __init__(self, chance: Chance) -> None:
        self._chance, most = chance, chance.choice((200, 4_000, 1 << 22))
        self._sides = _Side(most), _Side(most)

    def take(self, records: Sequence[Stored]) -> None:
        """Let both take the records of one append. Raises AssertionError."""
        listed = list(records)
        self._check_sequence(records, listed)
        # A topic that a packer does not know leaves the whole call to Python.
        if self._chance.random() < 0.9:
            for side in self._sides:
                side.beginnings.update({each.topic: each.topic.encode() for each in listed})
        as_made, as_list = self._sides
        assert as_made.take(records) == as_list.take(listed)
        if self._chance.random() < 0.05:
            self.pass_on()

    def pass_on(self) -> None:
        """Let the taps of both receive what is kept. Raises AssertionError."""
        for side in self._sides:
            side.taps.taps.pass_on()
        as_made, as_list = self._sides
        assert as_made.taps.received == as_list.taps.received

    def _check_sequence(self, records: Sequence[Stored], listed: list[Stored]) -> None:
        count, at = len(listed), self._chance.randrange(-len(listed) - 2, len(listed) + 2)
        assert len(records) == count
        assert records == listed
        assert list(records[at:]) == listed[at:]
        if -count <= at < count:
            assert records[at] == listed[at]
        else:
            try:
                found: object = records[at]
            except IndexError:
                found = None
            assert found is None
