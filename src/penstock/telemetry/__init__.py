"""Typed facts, passed to plain callables.

A component that emits facts receives a ``Listener`` and calls it with each. Logging, metrics and
the terminal view are listeners; a test can use ``facts.append``. A fact is data and does not depend
on its listeners.
"""

from collections.abc import Callable, Sequence

from penstock.telemetry.facts import *  # noqa: F403
from penstock.telemetry.facts import Fact
from penstock.telemetry.logs import *  # noqa: F403
from penstock.telemetry.logs import log_error

Listener = Callable[[Fact], None]


def quiet(_: Fact) -> None:
    """Ignore a fact: the default listener."""


def fan_out(listeners: Sequence[Listener]) -> Listener:
    """One listener that passes each fact to several; if one raises, the rest still receive it."""

    def emit(fact: Fact) -> None:
        for listener in listeners:
            try:
                listener(fact)
            except Exception as error:
                log_error("listener_failed", listener=repr(listener), error=repr(error))

    return emit
