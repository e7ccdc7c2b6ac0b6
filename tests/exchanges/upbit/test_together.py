"""Upbit's frames read together, and its books spelled at once: the same as with care."""

import json
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from tests.exchanges.upbit.test_stream import AT_NS, BOOK, TICKER, TRADE, dialect, frame

from penstock.exchanges.frames import NOT_READ
from penstock.exchanges.upbit.payloads import levels, spell_units
from penstock.streaming.dialect import ReadsMany

# Mostly as the exchange writes them, so that many together often are.
usual = st.sampled_from(["127.0", "46.48838371", "0.05", "90001000.0", "0.00046"])
numbers = st.one_of(usual, usual, usual, st.sampled_from(["0.0", "0", "5", "8.4e-05", "0.00"]))
KEYS = ("ap", "bp", "as", "bs")


def written(units: list[tuple[str, ...]]) -> bytes:
    rows = [",".join(f'"{k}":{v}' for k, v in zip(KEYS, each, strict=True)) for each in units]
    return f"[{','.join(f'{{{row}}}' for row in rows)}]".encode()


@given(st.lists(st.tuples(usual, usual, usual, usual), max_size=40))
def test_a_book_spelled_at_once_is_the_same_as_with_care(units: list[tuple[str, ...]]) -> None:
    bids, asks = spell_units(Raw(written(units)))

    assert bids == levels([(bid, size) for _, bid, _, size in units])
    assert asks == levels([(ask, size) for ask, _, size, _ in units])


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=4))
def test_levels_of_nothing_are_left_out_however_they_are_spelled(
    units: list[tuple[str, ...]],
) -> None:
    bids, asks = (json.loads(bytes(side)) for side in spell_units(Raw(written(units))))

    assert exact(bids) == [tuple(map(Decimal, each[1::2])) for each in units if Decimal(each[3])]
    assert exact(asks) == [tuple(map(Decimal, each[::2])) for each in units if Decimal(each[2])]


@given(st.lists(st.tuples(usual, usual, usual, usual), min_size=1, max_size=3), st.data())
def test_damaged_units_are_refused_or_still_units(
    units: list[tuple[str, ...]], data: st.DataObject
) -> None:
    whole = written(units)
    at = data.draw(st.integers(0, len(whole) - 1))
    byte = data.draw(st.sampled_from(b'0123456789.,"[]{}-eapbs: '))
    spoilt = whole[:at] + bytes([byte]) + whole[at + 1 :]
    try:
        rows = json.loads(spoilt, parse_float=Decimal, parse_int=Decimal)
        right = [(Decimal(row["bp"]), Decimal(row["bs"])) for row in rows if Decimal(row["bs"])]
    except (ValueError, KeyError, TypeError, ArithmeticError):
        return
    try:
        bids, _ = spell_units(Raw(spoilt))
    except NOT_READ:
        return
    assert exact(json.loads(bytes(bids))) == right


def exact(side: list[list[str]]) -> list[tuple[Decimal, ...]]:
    return [tuple(map(Decimal, level)) for level in side]


good_frames = st.sampled_from(
    [frame(BOOK), frame(TRADE), frame(TICKER), frame(TRADE, tv=5), frame(BOOK, obu=[])]
)


@given(st.lists(good_frames, max_size=6), st.sampled_from([b"", b"{", b'{"status":"UP"}', "x"]))
def test_many_frames_are_read_as_one_by_one_or_not_at_all(
    frames: list[bytes], other: bytes | str
) -> None:
    made, stamps = dialect(), [AT_NS + each for each in range(len(frames))]
    alone = [said for each in zip(frames, stamps, strict=True) for said in made.read(*each)]

    assert isinstance(made, ReadsMany)
    assert made.read_many(frames, stamps) == alone
    assert made.read_many([*frames, other], [*stamps, AT_NS]) is None


def test_frames_that_may_be_answers_are_read_one_by_one() -> None:
    made = dialect()
    made.subscribe(["trade:KRW-LAMB"], 1)

    assert made.read_many([frame(TRADE)] * 2, [1, 2]) is None
    assert len(made.read(frame(TRADE), 1)) == 2
    assert made.read_many([frame(TRADE)] * 2, [1, 2]) is not None
