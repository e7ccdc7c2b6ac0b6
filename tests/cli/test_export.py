"""``penstock export`` and ``penstock query``: collected data for other programs."""

import csv
import io
import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from tests import events

from penstock.storage.log import open_log

from .conftest import invoke, run

NOON_NS = 1_793_534_400_000_000_000
SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    times = [(number, NOON_NS + number * SECOND_NS) for number in range(1, 101)]
    writer = open_log(f"rocksdb:{folder}").writer("a")
    writer.append(
        [events.trade(i, at_ns=ns, received_at_ns=ns, price_text=f"{i}.50") for i, ns in times]
    )
    writer.close()
    return folder


def test_every_format_has_the_same_rows(data: Path, tmp_path: Path) -> None:
    for name in ("trades.csv", "trades.jsonl", "trades.parquet", "trades.arrow"):
        done = invoke("export", "trades", "btc_usdt", "-o", str(tmp_path / name), *where(data))
        assert done.returncode == 0, done.stderr
        assert "100 rows written" in done.stderr

    rows = list(csv.DictReader((tmp_path / "trades.csv").read_text().splitlines()))
    assert rows[0]["price"] == "1.50"
    assert rows[0]["time"] == "2026-11-01T12:00:01.000000Z"
    lines = [json.loads(line) for line in (tmp_path / "trades.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == list(range(1, 101))
    assert [row["price"] for row in rows] == [line["price"] for line in lines]
    parquet = pl.read_parquet(tmp_path / "trades.parquet")
    with pa.OSFile(str(tmp_path / "trades.arrow")) as file:
        stream = pl.DataFrame(pa.ipc.open_stream(file).read_all())
    assert parquet.equals(stream)
    assert parquet["price"].to_list() == [row["price"] for row in rows]


def where(data: Path) -> tuple[str, str]:
    return "--data-dir", str(data)


def test_stdout_has_only_the_data(data: Path, tmp_path: Path) -> None:
    done = run("export", "candles_1m", "--from-trades", *where(data), folder=tmp_path)

    assert done.returncode == 0, done.stderr
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["trades"] for row in found] == ["59", "41"]
    assert "gaps are not known" in done.stderr


def test_an_existing_file_is_kept(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "trades.csv"
    file.write_text("mine")

    refused = invoke("export", "trades", "-o", str(file), *where(data))
    assert refused.returncode == 2
    assert "--overwrite" in refused.stderr
    assert file.read_text() == "mine"
    done = invoke("export", "trades", "-o", str(file), "--overwrite", *where(data))
    assert done.returncode == 0
    assert file.read_text().startswith("exchange,")
    assert [each.name for each in tmp_path.iterdir()] == ["trades.csv"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["trads"], "Did you mean trades"),
        (["trades", "eth_usdt"], "Did you mean BTC/USDT"),
        (["trades", "--exchange", "tyo"], "Did you mean toy"),
        (["trades", "--since", "soon"], "'soon' is not a time"),
        (["trades", "--numbers", "int"], "use one of float, decimal, text"),
        (["trades", "--on-gap", "raise"], "gaps are not known"),
        (["candles_1x"], "'1x' is not a candle interval"),
        (["trades", "-o", "/no/such/folder/x.csv"], "No such file or directory"),
    ],
)
def test_bad_input_is_answered_in_one_line(data: Path, words: list[str], says: str) -> None:
    done = invoke("export", *words, *where(data))

    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]


def test_a_query_is_a_table_or_lines(data: Path) -> None:
    text = "SELECT symbol, count(*) AS n, max(price) AS top FROM trades GROUP BY symbol"

    table = invoke("query", text, *where(data))
    assert table.stdout.split() == ["symbol", "n", "top", "BTC/USDT", "100", "100.5"]
    lines = invoke("query", text, "--json", *where(data))
    assert json.loads(lines.stdout) == {"symbol": "BTC/USDT", "n": 100, "top": 100.5}
    comma = invoke("query", text, "--csv", *where(data))
    assert comma.stdout == "symbol,n,top\nBTC/USDT,100,100.5\n"
    some = invoke("query", "FROM trades SELECT id", "--rows", "3", *where(data))
    assert "97 more rows" in some.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("COPY trades TO 'x.csv'", "only one SELECT is accepted, this is COPY"),
        ("SELECT * FROM read_csv('/etc/passwd')", "file system operations are disabled"),
        ("SELECT nothing FROM trades", "nothing"),
    ],
)
def test_a_query_reaches_only_the_data(data: Path, text: str, says: str) -> None:
    done = invoke("query", text, *where(data))

    assert done.returncode == 2
    assert says in done.stderr


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = invoke("query", "SELECT 1", "--data-dir", str(tmp_path / "nowhere"))

    assert done.returncode == 2
    assert "there is no such folder" in done.stderr
    assert not (tmp_path / "nowhere").exists()
