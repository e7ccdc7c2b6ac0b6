"""Errors of live values."""

from penstock.errors.base import PenstockError


class BadTick(PenstockError, ValueError):
    """What should be stored as a tick is none."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"This is no tick: {problem}. Pass a penstock.market.events.Ticker.")


class BadProcess(PenstockError, ValueError):
    """A process cannot be registered as it is described; ``field`` is the invalid field."""

    def __init__(self, field: str, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} of a process {problem}.")


class UnknownProcess(PenstockError):
    """No process with that id is registered; its entry may have expired."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        super().__init__(f"No process {process_id!r} is registered. Register it again.")


class BadSymbol(PenstockError, ValueError):
    """What should be a symbol of an exchange, whose ticks are to be collected, is none."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"Invalid symbol: {problem}. Pass a penstock.tickers.TickerSymbol.")
