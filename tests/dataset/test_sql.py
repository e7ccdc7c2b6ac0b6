"""SQL reads the channels of a dataset, and can reach and change nothing else."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from tests.dataset.stored import NOON_NS, SECOND_NS, dataset, seal
from tests.events import candle, trade

from penstock.dataset.dataset import Dataset
from penstock.dataset.plans import Choices, sql_tables
from penstock.dataset.pushdown import Narrowing
from penstock.dataset.sql import SqlResult, SqlTable
from penstock.dataset.times import Range
from penstock.errors import BadQuery
from penstock.storage.log import open_log


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    """Of all tests, since no query can change it."""
    lake = tmp_path_factory.mktemp("lake")
    log = open_log("memory:")
    at = [NOON_NS + i * SECOND_NS for i in range(20)]
    written = log.writer("a").append(
        [
            *(
                trade(i + 1, at_ns=ns, received_at_ns=ns, price_text="2.5")
                for i, ns in enumerate(at)
            ),
            candle(NOON_NS // 1_000_000, "1h", received_at_ns=NOON_NS),
        ]
    )
    seal(lake, written[:10])
    found = dataset(log, lake)
    yield found
    assert found.sql("SELECT count(*) FROM trades").rows() == [(20,)], "a query changed it"


def test_every_channel_is_a_table(data: Dataset) -> None:
    assert data.sql("SELECT count(*), sum(price * quantity) FROM trades").rows() == [(20, 50.0)]
    assert data.sql("SELECT count(*) FROM candles_1h").rows() == [(1,)]
    assert data.sql("SELECT * FROM tickers").polars().height == 0
    assert data.sql("FROM coverage SELECT state").columns == ["state"]
    both = "SELECT count(*) FROM trades a JOIN trades b USING (id) WHERE a.time > '2026-01-01'"
    assert data.sql(both).arrow().num_rows == 1
    assert data.sql(both).pandas().iloc[0, 0] == 20


def test_rows_have_values_of_python(data: Dataset) -> None:
    text = "SELECT sum(id), time, taker, NULL FROM trades GROUP BY ALL ORDER BY time LIMIT 1"
    [(total, at, taker, nothing)] = data.sql(text).rows()

    assert (total, type(total), nothing) == (1, int, None)
    assert at == datetime.fromtimestamp(NOON_NS // SECOND_NS, UTC)
    assert taker in ("buy", "sell")


def test_a_range_limits_all_tables(data: Dataset) -> None:
    found = data.sql("SELECT min(id), max(id) FROM trades", since=NOON_NS + 5 * SECOND_NS)

    assert found.rows() == [(6, 20)]


def test_a_filter_by_time_is_exact(data: Dataset) -> None:
    where = "time >= '2026-11-01 12:00:03' AND time < '2026-11-01 12:00:05'"

    assert data.sql(f"SELECT id FROM trades WHERE {where}").rows() == [(4,), (5,)]


@pytest.mark.parametrize(
    "text",
    [
        "COPY trades TO '{out}'",
        "COPY (SELECT 1) TO '{out}' (FORMAT parquet)",
        "EXPORT DATABASE '{out}'",
        "ATTACH '{out}' AS other",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '1GB'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "CREATE TABLE mine AS SELECT 1",
        "DROP VIEW trades",
        "INSERT INTO trades SELECT * FROM trades",
        "DELETE FROM trades",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "SELECT 1; COPY (SELECT 1) TO '{out}'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/etc/hostname')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_parquet('https://example.org/x.parquet')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM data",
        "SELECT getenv('HOME')",
        "SELEC 1",
        "SELECT no_such_column FROM trades",
        "SELECT 1 / 'x'",
        "",
    ],
)
def test_nothing_outside_can_be_reached_or_changed(
    data: Dataset, tmp_path: Path, text: str
) -> None:
    out = tmp_path / "out"
    with pytest.raises(BadQuery, match=r"^SQL: "):
        data.sql(text.format(out=out)).rows()
    assert not out.exists()


def test_a_query_of_much_data_is_run_batch_by_batch(data: Dataset) -> None:
    tables = sql_tables(data._source, Choices(Range(), "ignore", "float", "penstock"))
    text = (
        "SELECT a.taker, count(*), sum(b.price) FROM trades a JOIN trades b USING (id) GROUP BY 1"
    )

    at_once, in_batches = SqlResult(text, tables), SqlResult(text, tables, most_bytes=100)
    assert at_once.rows() == in_batches.rows() == [("buy", 20, 50.0)]
    with pytest.raises(BadQuery, match="Conversion Error"):
        SqlResult("SELECT source::INT FROM trades", tables, most_bytes=100).rows()


@pytest.mark.parametrize(
    ("text", "expected", "narrowed"),
    [
        ("SELECT count(*) FROM trades WHERE time < '2026-11-01 12:00:05'", [(5,)], True),
        ("SELECT id FROM trades WHERE id = 3 AND symbol = 'BTC/USDT'", [(3,)], True),
        (
            "SELECT (SELECT count(*) FROM trades WHERE time < '2026-11-01 12:00:05'),"
            " (SELECT count(*) FROM trades WHERE time >= '2026-11-01 12:00:15')",
            [(5, 5)],
            False,
        ),
    ],
)
def test_of_much_data_a_single_scan_reads_only_what_it_needs(
    data: Dataset, text: str, expected: object, narrowed: bool
) -> None:
    tables = sql_tables(data._source, Choices(Range(), "ignore", "float", "penstock"))
    trades = Spy(tables["trades"])

    assert SqlResult(text, {**tables, "trades": trades}, most_bytes=10).rows() == expected
    last = trades.asked[-1]
    assert (last.symbol is not None or last.times != Range()) == narrowed


class Spy:
    """A table that keeps what was asked of it."""

    def __init__(self, table: SqlTable) -> None:
        self._table, self.schema, self.asked = table, table.schema, list[Narrowing]()

    def frames(self, narrowing: Narrowing) -> Iterator[pl.DataFrame]:
        self.asked.append(narrowing)
        return self._table.frames(narrowing)


def test_the_memory_of_a_query_is_limited_and_only_its_own_folder_is_in_reach(
    data: Dataset,
) -> None:
    text = "SELECT value FROM duckdb_settings() WHERE name = '{}'"
    limit, reached = (
        data.sql(text.format(name)).rows()[0][0] for name in ("memory_limit", "allowed_directories")
    )

    assert limit == "953.6 MiB"
    assert re.fullmatch(r"\[[^,]*/penstock-sql-[^/,]*/\]", str(reached))
