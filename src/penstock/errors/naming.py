"""Errors of names and values that do not exist or are malformed."""

from collections.abc import Collection, Iterable

from penstock.errors.base import PenstockError, hint, near_matches


class UnknownSymbol(PenstockError):
    """The exchange does not list this symbol."""

    def __init__(self, exchange: str, symbol: str, known: Iterable[str] = ()) -> None:
        self.exchange, self.symbol, self.near = exchange, symbol, near_matches(symbol, known)
        super().__init__(f"{exchange} does not list {symbol!r}.{hint(self.near)}")


class MalformedSymbol(PenstockError):
    """Not a spelling of any symbol."""

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        super().__init__(
            f"{text!r} is not a symbol: {problem}. Write btc_usdt, BTC/USDT or BTC-USDT."
        )


class UnknownInterval(PenstockError):
    """Not a supported candle length."""

    def __init__(self, text: str, known: Collection[str]) -> None:
        self.text, self.near = text, near_matches(text, known)
        super().__init__(f"{text!r} is not a candle interval. Use one of: {' '.join(known)}.")


class MalformedLevels(PenstockError):
    """Price levels that are not pairs of plain decimal numbers."""


class UnknownExchange(PenstockError):
    """No exchange of that name is supported."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        self.name, self.near = name, near_matches(name, known)
        supported = f"Supported: {' '.join(sorted(known))}."
        super().__init__(f"Exchange {name!r} is not supported.{hint(self.near)} {supported}")


class UnknownChannel(PenstockError):
    """The exchange does not offer that kind of data."""

    def __init__(self, exchange: str, channel: str, known: Iterable[str]) -> None:
        known = list(known)
        self.exchange, self.channel, self.near = exchange, channel, near_matches(channel, known)
        there = f"It has: {' '.join(known)}."
        super().__init__(f"{exchange} has no channel {channel!r}.{hint(self.near)} {there}")


class NotCollected(PenstockError):
    """An exchange or market of which a data folder has no data."""

    def __init__(self, name: str, collected: Iterable[str]) -> None:
        self.name, names = name, sorted(collected)
        self.near = near_matches(name, names)
        meant = hint(self.near)
        shown = ", ".join(names[:10]) + (" and more" if len(names) > 10 else "")
        super().__init__(f"This folder has no data of {name!r}.{meant} It has: {shown}.")


class UnknownStream(PenstockError):
    """The log has no stream of that name."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        meant = hint(near_matches(name, known))
        super().__init__(f"The log has no stream {name!r}.{meant} See: penstock log stats")


class NoData(PenstockError):
    """Nothing was recorded of what is asked for."""


class BadSpeed(PenstockError):
    """The speed of a replay is not a number above zero."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        super().__init__(
            f"A replay cannot have speed {speed:g}: it is a number above zero, 1 for the speed of"
            " the recording."
        )


class UnknownSlot(PenstockError):
    """The log has no slot of that name."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        self.name = name
        there = f"It has: {' '.join(sorted(known))}." if known else "It is empty."
        super().__init__(f"The log has no slot {name!r}.{hint(near_matches(name, known))} {there}")


class UnknownMethod(PenstockError):
    """A client has no method of that name that sends a request."""

    def __init__(self, client: str, method: str, known: Collection[str]) -> None:
        self.method, self.near = method, near_matches(method, known)
        super().__init__(f"{client} has no method {method!r}.{hint(self.near)}")
