"""Reading frames: numbers that exchanges spell with an exponent are spelled out, exactly."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.exchanges.frames import NotANumber, spelled_out


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (145794000, "145794000"),
        ("127.00000000", "127.00000000"),
        ("8.428e-05", "0.00008428"),
        ("1E8", "100000000"),
        ("1.50e+1", "15.0"),
        ("0e-8", "0.00000000"),
    ],
)
def test_a_number_is_spelled_without_an_exponent(number: object, text: str) -> None:
    assert spelled_out(number) == text


@given(st.integers(0, 10**17), st.integers(0, 17), st.integers(-40, 40))
def test_spelling_a_number_out_does_not_change_it(digits: int, point: int, exponent: int) -> None:
    text = f"{Decimal(digits).scaleb(-point):f}e{exponent}"

    spelled = spelled_out(text)
    assert Decimal(spelled) == Decimal(text)
    assert spelled.replace(".", "").isdecimal()


@pytest.mark.parametrize("wrong", [-1, "-1.0", "1e100", "1e-999999999", "e5", "NaN", True, None])
def test_what_is_no_plain_number_is_refused_however_it_is_spelled(wrong: object) -> None:
    with pytest.raises(NotANumber):
        spelled_out(wrong)
