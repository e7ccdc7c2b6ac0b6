"""Exact numbers out of a library that counts in floats.

ccxt makes a number of every text it reads, and sorts by them. So it is given a float that remembers
the text it was made of: it sorts like a float, and nothing of the text is lost.
"""

from decimal import Decimal, InvalidOperation

from penstock.market.numbers import is_plain

# No price has more digits; what claims to is an exponent that would fill the memory.
_LONGEST = 64


class ExactNumber(float):
    """A float that knows its digits."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, value: str | float) -> "ExactNumber":
        number = super().__new__(cls, value)
        number.text = str(value)
        return number


def exact_float(source: object, key: object, default: object = None) -> object:
    """What stands under a key, as an exact number: in place of ccxt's ``safe_float``."""
    try:
        return ExactNumber(source[key])  # type: ignore[index]
    except (TypeError, ValueError, LookupError):
        return default


def text_of(value: object) -> str | None:
    """The digits of a number ccxt gave, plainly; what is none stays as it is, to be refused."""
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
