"""Numbers keep their digits on the way through ccxt."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from penstock.exchanges.ccxt.library.numbers import ExactNumber, exact_float, text_of
from penstock.market.numbers import is_plain

texts = st.from_regex(r"[0-9]{1,12}(\.[0-9]{1,18})?", fullmatch=True)


@given(texts)
def test_a_text_comes_out_as_it_went_in(text: str) -> None:
    assert text_of(ExactNumber(text)) == text
    assert text_of(exact_float({"p": text}, "p")) == text


@given(texts, texts)
def test_exact_numbers_sort_like_numbers(one: str, other: str) -> None:
    assert (ExactNumber(one) < ExactNumber(other)) == (float(one) < float(other))
    assert -ExactNumber(one) == -float(one), "which is how ccxt sorts bids"


@given(st.floats(min_value=1e-20, max_value=1e15) | st.just(0.0))
def test_a_float_is_spelt_plainly_and_is_the_same_number(number: float) -> None:
    text = text_of(number)

    assert text is not None
    assert is_plain(text)
    assert float(text) == number
    assert Decimal(text) == Decimal(repr(number))


def test_what_is_no_plain_number_is_left_to_be_refused() -> None:
    assert text_of(None) is None
    for text in ("NaN", "-1", "1e999999999", "Infinity", "some", ""):
        assert not is_plain(text_of(text) or "")
    assert text_of("1E-8") == "0.00000001"


def test_what_is_not_there_gives_the_default() -> None:
    assert exact_float({"p": None}, "p", "none") == "none"
    assert exact_float([], 0) is None
    assert exact_float({"p": "rubbish"}, "p") is None
