"""Compaction, retention and vacuum of the lake's tables.

Each step is one transaction, decided by what the table holds now. So it may be killed at any time:
what was not committed has no effect, and its files are removed by a later vacuum.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from penstock.errors import ConfigError
from penstock.keep.facts import PartitionCompacted, PartitionsDeleted
from penstock.keep.planning import Planned
from penstock.market.channels import BY_EVENT, Channel
from penstock.storage.lake import Lake, Partition
from penstock.telemetry import Listener, quiet

_OPEN_FILES = 64
"""Files of a partition that still grows, above which it is compacted."""
_DAY = timedelta(days=1)
_AGES = {"d": 1, "w": 7, "y": 365}
_SIZES = {"MB": 10**6, "GB": 10**9, "TB": 10**12}
_RULE = re.compile(r"([0-9]+)\s*([A-Za-z]+)")


class Retention(NamedTuple):
    """How long a channel is kept: by age, or by size."""

    days: int | None = None
    size_bytes: int | None = None


def read_retention(rules: Mapping[str, str]) -> dict[Channel, Retention]:
    """The retention of each channel that has one.

    Raises:
        ConfigError: a rule names no table, or is neither an age nor a size.
    """
    tables = {row.name: row for row in BY_EVENT.values()}
    found = {}
    for name, rule in rules.items():
        match = _RULE.fullmatch(rule.strip())
        number, unit = (int(match[1]), match[2]) if match else (0, "")
        if name not in tables:
            raise ConfigError(
                f"keep.retention.{name}", problem=f"is none of {', '.join(tables)}.",
                origin="settings",
            )  # fmt: skip
        if number < 1 or unit not in {*_AGES, *_SIZES}:
            raise ConfigError(
                f"keep.retention.{name}",
                problem=f"{rule!r} is neither an age such as 30d or 2y nor a size such as 50GB.",
                origin="settings",
            )
        found[tables[name]] = (
            Retention(days=number * _AGES[unit])
            if unit in _AGES
            else Retention(size_bytes=number * _SIZES[unit])
        )
    return found


class Upkeep(NamedTuple):
    """What is to be done with a table."""

    row: Channel
    compact: Sequence[Partition]
    delete: Sequence[Partition]


def plan(
    row: Channel, partitions: Sequence[Partition], retention: Retention | None, today: date
) -> Upkeep:
    """What is to be compacted and deleted of a table, given its partitions, oldest first."""
    delete = [] if retention is None else list(_outdated(row, partitions, retention, today))
    kept = [each for each in partitions if each not in delete]
    return Upkeep(row, [each for each in kept if _is_scattered(row, each, today)], delete)


def _is_scattered(row: Channel, partition: Partition, today: date) -> bool:
    grows = _end(row, partition) >= today  # late records come for a day
    return partition.files > (_OPEN_FILES if grows else 1)


def _outdated(
    row: Channel, partitions: Sequence[Partition], retention: Retention, today: date
) -> Iterator[Partition]:
    excess = 0
    if retention.size_bytes is not None:
        excess = sum(each.size_bytes for each in partitions) - retention.size_bytes
    for each in partitions:
        too_old = retention.days is not None and _end(row, each) <= today - retention.days * _DAY
        # The newest partitions stay, whatever their size.
        if too_old or (excess > 0 and _end(row, each) < today):
            excess -= each.size_bytes
            yield each


def _end(row: Channel, partition: Partition) -> date:
    """The day after the last one of a partition."""
    if row.partition == "day":
        return partition.date + _DAY
    return (partition.date.replace(day=28) + 4 * _DAY).replace(day=1)


class TableUpkeep:
    """Keeps the tables of a lake in order. Its methods block; not thread-safe."""

    def __init__(
        self, lake: Lake, retention: Mapping[Channel, Retention], emit: Listener = quiet
    ) -> None:
        self._lake, self._retention, self._emit = lake, retention, emit

    def plan(self, row: Channel, now_ms: int) -> Upkeep:
        """What is to be done with a table."""
        today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
        return plan(row, self._lake.partitions(row), self._retention.get(row), today)

    def planned(self, row: Channel, now_ms: int) -> list[Planned]:
        """The same, for people."""
        found = self.plan(row, now_ms)
        return [
            Planned(
                action=action,
                table=row.name,
                where=f"{each.exchange} {each.date}",
                records=each.rows,
                files=each.files,
                size_bytes=each.size_bytes,
            )
            for action, partitions in (("delete", found.delete), ("compact", found.compact))
            for each in partitions
        ]

    def delete(self, planned: Upkeep) -> None:
        """Delete what the retention no longer keeps."""
        if planned.delete and self._lake.delete(planned.row, planned.delete):
            self._emit(
                PartitionsDeleted(
                    table=planned.row.name,
                    partitions=len(planned.delete),
                    rows=sum(each.rows for each in planned.delete),
                    size_bytes=sum(each.size_bytes for each in planned.delete),
                )
            )

    def compact(self, row: Channel, partition: Partition) -> None:
        """Rewrite a partition as few files."""
        if self._lake.compact(row, partition):
            told = PartitionCompacted(
                table=row.name,
                exchange=partition.exchange,
                date=str(partition.date),
                files=partition.files,
            )
            self._emit(told)
