"""How the files of a lake divide among symbols.

Files hold all symbols of a partition, so a symbol has no size of its own. Of each partition one
file, the largest, is sampled: the share of a symbol in it is the share of its rows. Files never
change, so each is read once, and only the column with the symbols, which takes a few kilobytes.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.market.symbol import Symbol
from penstock.stats.disk import Use


class PartitionKey(NamedTuple):
    """A partition of a table."""

    table: str
    exchange: str
    rest: tuple[str, ...]


class PartitionFiles(NamedTuple):
    """The files of a partition."""

    use: Use
    largest: Path


SymbolShares = Mapping[str, float]
"""By slug, the share of the rows."""


def read_shares(file: Path) -> SymbolShares:
    """The share of each symbol in the rows of a Parquet file.

    Raises:
        Exception: it cannot be read.
    """
    # Imported here: it belongs to an extra.
    import pyarrow.parquet as pq  # noqa: PLC0415

    # Without what the path tells: a column of the partition would be added.
    found = pq.ParquetFile(file, read_dictionary=["symbol"]).read(["symbol"])
    counts = found.column("symbol").value_counts().to_pylist()
    rows = found.num_rows
    return {Symbol.parse(each["values"]).slug: each["counts"] / rows for each in counts}


class Sampler:
    """Remembers the shares of partitions. Not thread-safe."""

    def __init__(self, read: Callable[[Path], SymbolShares] = read_shares) -> None:
        self._read = read
        self._known: dict[PartitionKey, tuple[Path, SymbolShares]] = {}

    def sample(
        self, partitions: Mapping[PartitionKey, PartitionFiles], may_go_on: Callable[[], bool]
    ) -> None:
        """Read files of partitions that are new or have changed, the largest partitions first.

        Those that are left when it may not go on are read by a later call.
        """
        self._known = {key: known for key, known in self._known.items() if key in partitions}
        due = [
            key
            for key, files in partitions.items()
            if key not in self._known or self._known[key][0] != files.largest
        ]
        for key in sorted(due, key=lambda key: partitions[key].use.size_bytes, reverse=True):
            if not may_go_on():
                return
            file = partitions[key].largest
            try:
                self._known[key] = file, self._read(file)
            except Exception:
                # It was removed meanwhile, or is damaged: `penstock verify` tells.
                self._known[key] = file, {}

    def divide(
        self, partitions: Mapping[PartitionKey, PartitionFiles]
    ) -> dict[tuple[str, str, str], Use]:
        """By exchange, table and symbol: its part of the files.

        Its files are those of the partitions that hold it. A partition that was not sampled yet
        divides as the others of its table and exchange do.
        """
        sampled = {key: known[1] for key, known in self._known.items() if known[1]}
        usual: dict[tuple[str, str], dict[str, float]] = {}
        for key, shares in sampled.items():
            if key in partitions:
                sums = usual.setdefault((key.exchange, key.table), {})
                for symbol, share in shares.items():
                    size = share * partitions[key].use.size_bytes
                    sums[symbol] = sums.get(symbol, 0.0) + size
        found: dict[tuple[str, str, str], Use] = {}
        for key, (use, _) in partitions.items():
            sums = usual.get((key.exchange, key.table), {})
            whole = sum(sums.values()) or 1.0
            shares = sampled.get(key) or {symbol: size / whole for symbol, size in sums.items()}
            for symbol, share in shares.items():
                place = key.exchange, key.table, symbol
                part = Use(round(use.size_bytes * share), use.files, use.updated_ms)
                found[place] = found.get(place, Use()).plus(part)
        return found
