"""Questions to the simulator itself: how their parameters are read.

A parameter that is unknown, missing, of the wrong form or out of range is answered with what would
be right. Every range has an end, so that no question can take long to answer.
"""

import re
from collections.abc import Collection, Mapping, Sequence

from penstock.errors import near_matches
from penstock.simulator.engine.exchange import Query

_WHOLE = re.compile(r"[0-9]{1,20}")
_SHOWN = 60
_NAMED = 40


class BadQuestion(Exception):
    """A question nobody can answer; the message says why."""


def read_query(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """The parameters of a question, each given once.

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
    """Refuse parameters that the question does not have.

    Raises:
        BadQuestion: there is one.
    """
    for name in query:
        if name not in known:
            parameters = f"It takes {' '.join(known)}." if known else "It takes no parameters."
            raise BadQuestion(
                f"There is no parameter {shown(name)!r} here.{meant(name, known)} {parameters}"
            )


def whole(
    query: Query,
    name: str,
    allowed: tuple[int, int],
    default: int | None = None,
    because: str = "",
) -> int:
    """A whole number of a range, both ends included.

    Raises:
        BadQuestion: it is missing and has no default, is not a whole number, or is out of range.
    """
    text = query.get(name)
    if text is None and default is not None:
        return default
    least, most = allowed
    if text is not None and _WHOLE.fullmatch(text) and least <= int(text) <= most:
        return int(text)
    given = "it is missing" if text is None else f"not {shown(text)!r}"
    raise BadQuestion(
        f"{name} must be a whole number from {least} to {most}, {given}.{because and ' '}{because}"
    )


def one_of(given: str, known: Mapping[str, object], what: str) -> str:
    """One of the names there are.

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
    """What was probably meant, as the end of a message."""
    # Comparing names takes time that grows with the square of their length.
    near = near_matches(given[:_SHOWN], known)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def shown(text: str) -> str:
    """What was given, short enough for a message or a log."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
