"""Parses the parameters of requests to the control API.

The error for a parameter that is unknown, missing, malformed or out of range states what is
allowed. Every range is bounded, so that no request takes long.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from penstock.errors import near_matches
from penstock.simulator.engine.exchange import Query

_WHOLE = re.compile(r"[0-9]{1,20}")
_SHOWN = 60
_NAMED = 40


class BadQuestion(Exception):
    """A control request is not valid; the message has the reason."""


def read_query(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The parameters of a request, each given once.

    Raises:
        BadQuestion: one is given twice.
    """
    query: dict[str, str] = {}
    for name, value in pairs:
        if name in query:
            raise BadQuestion(f"{shown(name)} is given more than once. Give it once.")
        query[name] = value
    return query


def check_names(query: Query, known: Collection[str]) -> None:
    """Reject unknown parameters.

    Raises:
        BadQuestion: there is one.
    """
    for name in query:
        if name not in known:
            parameters = f"It takes {' '.join(known)}." if known else "It takes no parameters."
            raise BadQuestion(
                f"There is no parameter {shown(name)!r}.{meant(name, known)} {parameters}"
            )


def whole(
    query: Query,
    name: str,
    allowed: tuple[int, int],
    default: int | None = None,
    because: str = "",
) -> int:
    """The value of a whole number within a range, both ends included.

    Raises:
        BadQuestion: it is missing and has no default, is not a whole number, or is out of range.
    """
    text = query.get(name)
    if text is None and default is not None:
        return default
    least, most = allowed
    if text is not None and _WHOLE.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    given = "but it is missing" if text is None else f"not {shown(text)!r}"
    raise BadQuestion(
        f"{name} must be a whole number from {least} to {most}, {given}.{because and ' '}{because}"
    )


def one_of(given: str, known: Mapping[str, object], what: str) -> str:
    """Return the given name if it is known.

    Raises:
        BadQuestion: there is no such name.
    """
    if given in known:
        return given
    names = " ".join([*known][:_NAMED])
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    raise BadQuestion(
        f"There is no {what} {shown(given)!r}.{meant(given, known)} Known: {names}{more}."
    )


def meant(given: str, known: Collection[str]) -> str:
    """A suggestion of similar names, as the end of a message."""
    # The time to compare names grows with the square of their length.
    near = near_matches(given[:_SHOWN], known)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def shown(text: str) -> str:
    """The given text, shortened for a message or a log."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
