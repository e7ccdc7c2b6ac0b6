"""Parses fault plans: reproducible failures of an exchange.

A plan is text: entries separated by commas, each ``kind=how`` or ``kind@where=how``::

    drop=0.01, delay@btcusdt@depth*=0.2, cut=5s, latency=50ms..2s, limit=3000@10s

``where`` is a shell pattern (``*``, ``?``, ``[…]``), or several separated by ``|``. It is matched
against the stream's name for frames, the path for requests, and the path of the connection for
connections and their acknowledgements. Of several entries of a kind, the first match is used.
``how`` is:

- a rate from 0 to 1. Of frames: ``drop``, ``duplicate``, ``reorder`` (swap with the next one),
  ``delay`` (hold up to half a second), ``malformed`` (cut the text), ``nan``, ``huge`` (replace a
  number). Of requests: ``http500``, ``http429``, ``http418``, ``html`` (a page instead of JSON),
  ``cutbody`` (half the announced body), ``stale`` and ``early`` (data of up to 2 s before or 1 s
  after; only of books unless ``where`` is given), ``http404``, ``corrupt`` (one bit is changed) and
  ``short`` (half the body, announced as all; both only of files unless ``where`` is given). Of
  acknowledgements: ``lostack``, ``refusedack``.
- a time such as ``500ms``, ``5s``, ``2m``: ``mute`` (no more frames from then on, but pings),
  ``cut`` (disconnect within the next frame), ``close`` (without a close frame), ``shutdown`` (a
  notice, and a close some seconds later), ``lifetime``. ``cut``, ``close`` and ``shutdown`` occur
  up to half that time earlier or later.
- ``latency``: a time, or a range of times as above.
- ``limit``: a new value of the first limit, optionally with ``@`` and the time of the change.

A fault is drawn from the seed and from the number of the frame, connection or request, never from
the time, so that a run can be repeated.
"""

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

from penstock.errors import ConfigError, near_matches
from penstock.simulator.market.rng import key, mix

_Value = Literal["rate", "time", "range", "limit"]

FRAME_KINDS = ("mute", "drop", "duplicate", "reorder", "delay", "malformed", "nan", "huge")
CONNECTION_KINDS = ("cut", "close", "shutdown", "lifetime")
ACK_KINDS = ("lostack", "refusedack")
REQUEST_KINDS = (
    "latency",
    "http500",
    "http429",
    "http418",
    "html",
    "cutbody",
    "stale",
    "early",
    "http404",
    "corrupt",
    "short",
)
KINDS = (*FRAME_KINDS, *CONNECTION_KINDS, *ACK_KINDS, *REQUEST_KINDS, "limit")

_VALUES: dict[str, _Value] = {
    **dict.fromkeys(("mute", *CONNECTION_KINDS), "time"),
    "latency": "range",
    "limit": "limit",
}
_ALLOWED: dict[_Value, str] = {
    "rate": "a rate from 0 to 1, such as 0.01",
    "time": "a time of up to 24h, such as 500ms, 5s or 2m",
    "range": "a time of up to 24h or a range of times, such as 50ms..2s",
    "limit": "a whole number, optionally with the time of the change, such as 3000@10s",
}
_EVERYWHERE = "*"
_BOOKS = "*[Dd]epth*|*/book|*/orderbook"
_FILES = "*.zip"
_DEFAULT_WHERE = {"stale": _BOOKS, "early": _BOOKS, "corrupt": _FILES, "short": _FILES}

_LONGEST_PLACE = 200
_LONGEST_MS = 24 * 3_600_000
_MOST_ENTRIES = 200
_CERTAIN = 1 << 64  # draws are 64 bits wide
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_ENTRY = re.compile(r"(?P<kind>[^@=]*)(?:@(?P<where>.*))?=(?P<how>[^=]*)")
# The @ of a limit comes after the equals sign, so it is not mistaken for that of ``where``.


@dataclass(frozen=True)
class Fault:
    """One entry of a plan; only the fields that its kind needs are set."""

    kind: str
    where: str = _EVERYWHERE
    chance: int = 0
    """How many of 2^64 draws are hits."""
    low_ms: int = 0
    high_ms: int = 0
    limit: int = 0

    def matches(self, place: str) -> bool:
        """Whether the entry applies to a stream or path."""
        return self.where == _EVERYWHERE or any(
            fnmatchcase(place, pattern) for pattern in self.where.split("|")
        )


@dataclass(frozen=True)
class FaultPlan:
    """A parsed plan: which faults to inject, where and how often."""

    text: str = ""
    seed: int = 1
    faults: tuple[Fault, ...] = ()

    def find(self, kind: str, place: str) -> Fault | None:
        """The entry of a kind for a stream or path, if any."""
        for fault in self.faults:
            if fault.kind == kind and fault.matches(place):
                return fault
        return None

    def injects(self, kind: str, place: str, *which: int) -> bool:
        """Whether a fault of that kind is injected into this frame or request."""
        fault = self.find(kind, place)
        return fault is not None and self.draw(kind, place, *which) < fault.chance

    def draw(self, kind: str, place: str, *which: int) -> int:
        """64 bits that depend only on the seed, the kind, the place and the numbers."""
        drawn = _root(self.seed, kind, place)
        for number in which:
            drawn = mix(drawn ^ number)
        return drawn

    def touches_connections(self) -> bool:
        """Whether any entry can affect a stream connection."""
        on_streams = {*FRAME_KINDS, *CONNECTION_KINDS, *ACK_KINDS}
        return any(fault.kind in on_streams for fault in self.faults)


def read_plan(text: str, seed: int = 1, origin: str = "command line") -> FaultPlan:
    """Parse a plan; an empty text is a plan without faults.

    Raises:
        ConfigError: a kind is unknown, or its value is not allowed.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if len(entries) > _MOST_ENTRIES:
        problem = f"{len(entries)} entries are too many. At most {_MOST_ENTRIES} are allowed."
        raise ConfigError("faults", problem=problem, origin=origin)
    return FaultPlan(text, seed, tuple(_read_entry(entry, origin) for entry in entries))


def _root(seed: int, kind: str, place: str) -> int:
    # Clients may send paths of any length; long ones are not cached.
    find = _known_root if len(place) <= _LONGEST_PLACE else _known_root.__wrapped__
    return find(seed, kind, place)


@lru_cache(maxsize=4096)
def _known_root(seed: int, kind: str, place: str) -> int:
    return key("fault", seed, kind, place)


def _read_entry(entry: str, origin: str) -> Fault:
    match = _ENTRY.fullmatch(entry)
    kind = (match["kind"] if match else entry).strip()
    if kind not in KINDS:
        near = near_matches(kind, KINDS)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {' '.join(KINDS)}."
        raise ConfigError("faults", problem=f"{kind!r} is not a fault. {hint}", origin=origin)
    where = (match["where"] or "").strip() if match else ""
    value = _VALUES.get(kind, "rate")
    try:
        if match is None:
            raise ValueError(entry)
        how = _read_value(value, match["how"].strip())
    except (ValueError, InvalidOperation) as error:
        given = match["how"] if match else "nothing"
        raise ConfigError(
            "faults",
            problem=f"{kind}={given} is not allowed. {kind} takes {_ALLOWED[value]}.",
            origin=origin,
        ) from error
    return Fault(kind, where or _DEFAULT_WHERE.get(kind, _EVERYWHERE), *how)


def _read_value(value: _Value, text: str) -> tuple[int, int, int, int]:
    """(chance, low_ms, high_ms, limit)"""
    if value == "rate":
        rate = Decimal(text)
        if not 0 <= rate <= 1:
            raise ValueError(text)
        return int(rate * _CERTAIN), 0, 0, 0
    if value == "limit":
        number, _, when = text.partition("@")
        limit, after_ms = int(number), _read_ms(when) if when else 0
        if limit < 1:
            raise ValueError(text)
        return 0, after_ms, after_ms, limit
    low, dots, high = text.partition("..")
    low_ms = _read_ms(low)
    high_ms = _read_ms(high) if dots else low_ms
    if high_ms < low_ms or (dots and value == "time"):
        raise ValueError(text)
    return 0, low_ms, high_ms, 0


def _read_ms(text: str) -> int:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h)", text.strip())
    if match is None:
        raise ValueError(text)
    at_ms = Decimal(match[1]) * _UNITS_MS[match[2]]
    if at_ms > _LONGEST_MS:
        raise ValueError(text)
    return int(at_ms)
