"""Telemetry: typed facts, handed to plain callables.

A part that has something to tell is given a ``Listener`` and calls it with a fact. Logging, metrics
and the terminal view are listeners; a test is one too, with ``facts.append``. A fact is data and
knows nothing of who hears it.
"""

from collections.abc import Callable, Sequence

from penstock.telemetry.facts import *  # noqa: F403
from penstock.telemetry.facts import Fact
from penstock.telemetry.logs import *  # noqa: F403
from penstock.telemetry.logs import log_error

Listener = Callable[[Fact], None]


def quiet(_: Fact) -> None:
    """The listener of those who do not listen."""


def tell_all(listeners: Sequence[Listener]) -> Listener:
    """One listener that hands each fact to several; one that raises does not silence the rest."""

    def tell(fact: Fact) -> None:
        for listener in listeners:
            try:
                listener(fact)
            except Exception as error:
                log_error("listener_failed", listener=repr(listener), error=repr(error))

    return tell
