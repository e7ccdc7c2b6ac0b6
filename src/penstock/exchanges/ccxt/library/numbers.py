"""Keeps numbers exact in ccxt, which uses floats.

ccxt converts every text it reads to a number, and sorts by these numbers. So it is given a float
that stores its original text: it sorts like a float, and no digits are lost.
"""

from decimal import Decimal, InvalidOperation

from penstock.market.numbers import is_plain

# No price has more digits; writing out a larger exponent would fill the memory.
_LONGEST = 64


class ExactNumber(float):
    """A float that stores its digits."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, value: str | float) -> "ExactNumber":
        number = super().__new__(cls, value)
        number.text = str(value)
        return number


def exact_float(source: object, key: object, default: object = None) -> object:
    """The value of a key as an exact number; replaces ccxt's ``safe_float``."""
    try:
        return ExactNumber(source[key])  # type: ignore[index]
    except (TypeError, ValueError, LookupError):
        return default


def text_of(value: object) -> str | None:
    """The plain digits of a number from ccxt; other texts are unchanged, to be rejected later."""
    if value is None:
        return None
    text = value.text if isinstance(value, ExactNumber) else str(value)
    if is_plain(text):
        return text
    try:
        number = Decimal(text)
        if number.is_finite() and -_LONGEST < number.adjusted() < _LONGEST:
            return f"{number:f}"
    except InvalidOperation:
        pass
    return text
