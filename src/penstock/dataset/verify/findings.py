"""What a verification found."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

from penstock.dataset.times import iso
from penstock.market.symbol import Symbol
from penstock.storage.log.keys import Stream

CheckName = Literal["files", "records", "ids", "candles", "books"]
"""``files``: every file of the lake can be read. ``records``: every record can be read, and none is
missing between two others of its slot. ``ids``: what the ledger calls complete is there.
``candles``: the exchange's candles equal those computed from trades. ``books``: books rebuilt from
changes equal the snapshots."""
CHECKS: tuple[CheckName, ...] = ("files", "records", "ids", "candles", "books")


class Finding(Struct, frozen=True, kw_only=True):
    """One defect."""

    check: CheckName
    exchange: str
    channel: str
    symbol: str
    problem: str
    first: int | None = None
    """The ids or numbers that it is about, both included."""
    last: int | None = None
    at_ms: int | None = None
    """The market time of it, if it is known."""

    def __str__(self) -> str:
        when = "" if self.at_ms is None else f"{iso(self.at_ms)}: "
        where = " ".join(filter(None, (self.exchange, self.channel, self.symbol)))
        return f"{where}: {when}{self.problem}"


class Report(Struct, kw_only=True):
    """The result of a verification."""

    compared: Counter[str] = field(default_factory=Counter)
    """How much each check has compared: records, ids, candles and snapshots."""
    findings: list[Finding] = []
    more: int = 0
    """Findings beyond the most that are listed."""
    not_checked: list[str] = []
    """What could not be checked, and why."""

    @property
    def clean(self) -> bool:
        """Whether no defect was found."""
        return not self.findings

    def add(self, findings: Iterable[Finding], most: int) -> None:
        """List findings, ``most`` of them at most."""
        for each in findings:
            if len(self.findings) < most:
                self.findings.append(each)
            else:
                self.more += 1


def finding(
    check: CheckName,
    stream: Stream,
    problem: str,
    *,
    ids: tuple[int, int] | None = None,
    at_ms: int | None = None,
) -> Finding:
    """A finding about a stream."""
    first, last = ids or (None, None)
    return Finding(
        check=check,
        exchange=stream.exchange,
        channel=stream.channel,
        symbol=Symbol.parse(stream.symbol).unified,
        problem=problem,
        first=first,
        last=last,
        at_ms=at_ms,
    )
