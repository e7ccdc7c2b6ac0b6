"""Published files are verified before a row of them is used, and read in bounded memory."""

import re
import tracemalloc
import zipfile
from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.ingest.archived import DAY, FILE, SERIES, checksum, row, zipped

from penstock.errors import BadFile
from penstock.ingest.archives import BATCH, Archive, verify
from penstock.market.events import Trade


def opened(data: bytes) -> Archive[Trade]:
    assert SERIES is not None
    return Archive(FILE, SERIES, BytesIO(data), 7)


def all_rows(archive: Archive[Trade]) -> list[Trade]:
    rows: list[Trade] = []
    while batch := archive.read():
        rows += batch
    return rows


def test_a_file_that_matches_its_checksum_is_accepted() -> None:
    data = zipped(row(1))

    verify(FILE, BytesIO(data), checksum(data))
    verify(
        FILE,
        BytesIO(data),
        checksum(data).upper().replace(FILE.name.upper().encode(), FILE.name.encode()),
    )


@given(st.binary(max_size=200), st.binary(min_size=1, max_size=200))
def test_any_other_content_is_refused_with_both_checksums(data: bytes, other: bytes) -> None:
    if data == other:
        return
    with pytest.raises(BadFile) as raised:
        verify(FILE, BytesIO(other), checksum(data))

    for each in (data, other):
        assert checksum(each).split()[0].decode() in str(raised.value)
    assert FILE.path in str(raised.value)
    assert "Nothing was recorded from it" in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [b"", b"<html>", b"abc  name.zip", b"0" * 64, checksum(b"", "BTCUSDT-trades-2024-01-02.zip")],
)
def test_a_checksum_file_that_is_not_one_is_refused(text: bytes) -> None:
    with pytest.raises(BadFile, match="checksum file"):
        verify(FILE, BytesIO(b""), text)


times = st.integers(DAY.since_ms, DAY.until_ms - 1)
amounts = st.decimals("0.00000001", "99999", places=8).map(lambda each: f"{each:.8f}")


@given(st.lists(st.tuples(times, amounts, amounts, st.booleans()), min_size=1), st.booleans())
def test_every_row_is_read_in_either_unit(
    made: list[tuple[int, str, str, bool]], is_micros: bool
) -> None:
    lines = [
        f"{number},{price},{quantity},1,{at}{'456' if is_micros else ''},{maker},True"
        for number, (at, price, quantity, maker) in enumerate(made)
    ]

    rows = all_rows(opened(zipped("\n".join(lines))))

    assert [each.id for each in rows] == list(range(len(made)))
    extra_ns = 456_000 if is_micros else 0
    assert [each.at_ns for each in rows] == [at * 1_000_000 + extra_ns for at, *_ in made]
    assert [(each.price_text, each.quantity_text) for each in rows] == [each[1:3] for each in made]
    assert [each.taker == "sell" for each in rows] == [each[3] for each in made]
    assert {(each.source, each.received_at_ns) for each in rows} == {("backfill", 7)}


def test_rows_come_in_batches_and_again_from_the_start() -> None:
    count = 2 * BATCH + 5
    archive = opened(zipped("".join(f"{row(number)}\r\n" for number in range(count))))

    sizes = [len(archive.read()) for _ in range(4)]

    assert sizes == [BATCH, BATCH, 5, 0]
    assert archive.next == count
    archive.rewind()
    assert archive.read()[0].id == 0


def test_a_large_file_is_read_in_little_memory() -> None:
    data = zipped("".join(f"{row(number)}\n" for number in range(50_000)))
    archive = opened(data)
    tracemalloc.start()

    while archive.read():
        pass

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000, "all of its trades take more than twice as much"


AT = DAY.since_ms
MALFORMED = (
    "",
    "x",
    "1,2,3",
    "id,price,qty,quoteQty,time,isBuyerMaker,isBestMatch",
    "1,1,1,1,,True,True",
    f"-1,1,1,1,{AT},True,True",
    f"1,nan,1,1,{AT},True,True",
    f"1,1,1e5,1,{AT},True,True",
    f"1,1,1,1,{AT},Yes,True",
    f"1,1,1,1,{AT},True,True,9",
    f"{2**70},1,1,1,{AT},True,True",
    f"\N{ARABIC-INDIC DIGIT TWO},1,1,1,{AT},True,True",
)


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_row_is_named_by_its_line(line: str) -> None:
    archive = opened(zipped(f"{row(0)}\n{line}\n{row(2)}\n"))

    with pytest.raises(BadFile) as raised:
        archive.read()

    assert raised.value.line == 2
    assert f"{FILE.path}, line 2" in str(raised.value)


@given(st.text(alphabet=st.characters(codec="utf-8")), st.integers(0, 6))
def test_no_text_makes_anything_but_a_row_or_a_bad_file(text: str, column: int) -> None:
    values = row(1).split(",")
    values[column] = text
    try:
        all_rows(opened(zipped(",".join(values))))
    except BadFile as error:
        assert FILE.path in str(error)


@pytest.mark.parametrize("at", [DAY.since_ms - 1, DAY.until_ms, DAY.until_ms * 1000, 5])
def test_a_row_of_another_day_is_refused(at: int) -> None:
    with pytest.raises(BadFile, match="should have those from 2024-01-01T00:00:00Z"):
        opened(zipped(row(1, at))).read()


@pytest.mark.parametrize("numbers", [(5, 5), (5, 4)])
def test_rows_out_of_order_are_refused(numbers: tuple[int, int]) -> None:
    with pytest.raises(BadFile, match="not in order"):
        opened(zipped("\n".join(map(row, numbers)))).read()


@pytest.mark.parametrize(
    "member", ["ETHUSDT-trades-2024-01-01.csv", f"../{FILE.member}", f"/etc/{FILE.member}", "a.csv"]
)
def test_a_member_of_another_name_is_refused(member: str) -> None:
    with pytest.raises(BadFile, match=f"should contain {re.escape(FILE.member)}"):
        opened(zipped(row(1), member)).read()


def test_a_zip_of_several_members_or_none_is_refused() -> None:
    target = BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(FILE.member, row(1))
        archive.writestr("more.csv", row(2))
    for data in (target.getvalue(), b"PK\x05\x06" + bytes(18)):
        with pytest.raises(BadFile, match="it contains"):
            opened(data).read()


@given(st.integers(1, 400), st.integers(0, 255))
@example(322, 1)  # the file begins before the archive does
def test_a_damaged_zip_is_a_bad_file_or_equal(at: int, byte: int) -> None:
    text = "".join(f"{row(number)}\n" for number in range(50))
    data = bytearray(zipped(text))
    cut, data[at % len(data)] = data[: at % len(data)], byte
    for each in (bytes(cut), bytes(data)):
        try:
            rows = all_rows(opened(each))
        except BadFile:
            continue
        assert len(rows) == 50


def test_a_zip_bomb_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadFile, match="more than 100 times as many"):
        opened(zipped(b"0" * 50_000_000)).read()


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(BadFile, match="more than 4096 bytes"):
        opened(zipped(bytes(range(48, 58)) * 5000, method=zipfile.ZIP_STORED)).read()


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_are_refused(method: int) -> None:
    with pytest.raises(BadFile, match="not deflate"):
        opened(zipped(row(1), method=method)).read()
