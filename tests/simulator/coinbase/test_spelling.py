"""Numbers are written exactly, in each of the exchange's ways, and times to the microsecond."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from penstock.simulator.coinbase.spelling import (
    Spelling,
    bare,
    padded,
    server_time,
    time,
    whole_time,
)
from penstock.simulator.market.market import Listing

UNITS, DECIMALS = st.integers(0, 10**15), st.integers(0, 8)
INSTANTS = st.integers(0, 4_000_000_000_000)
LISTING = Listing("BAND", "GBP", 4, 2, 147_775, 6, 0)


@given(UNITS, DECIMALS)
def test_a_padded_number_has_every_decimal(units: int, decimals: int) -> None:
    text = padded(units, decimals)

    assert Decimal(text) == Decimal(units).scaleb(-decimals)
    assert len(text.partition(".")[2]) == decimals


@given(UNITS, DECIMALS)
def test_a_bare_number_ends_in_no_zero(units: int, decimals: int) -> None:
    text = bare(units, decimals)

    assert Decimal(text) == Decimal(units).scaleb(-decimals)
    assert "." not in text or text[-1] not in "0."


@given(INSTANTS)
def test_a_time_is_within_its_millisecond(at_ms: int) -> None:
    text = time(at_ms)

    assert len(text) == len("2021-04-17T16:43:30.244075Z")
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    assert since // timedelta(milliseconds=1) == at_ms
    assert server_time(at_ms) == f"{text[:-4]}Z"


@given(INSTANTS.filter(bool), st.integers(0, 999))
def test_a_whole_time_counts_down_in_microseconds(at_ms: int, before: int) -> None:
    since = datetime.fromisoformat(whole_time(at_ms, before)) - datetime(1970, 1, 1, tzinfo=UTC)

    assert since == timedelta(milliseconds=at_ms, microseconds=-before)


def test_numbers_look_as_recorded() -> None:
    spelling = Spelling(LISTING)

    assert spelling.product_id == "BAND-GBP"
    assert spelling.price(147_550) == "14.7550"
    assert spelling.size(0) == "0.00"
    assert spelling.size(12_310) == "123.10"
    assert spelling.bare_price(147_750) == "14.775"
    assert spelling.bare_size(500) == "5"
    assert spelling.volume(9_438_128) == "94381.28000000"
