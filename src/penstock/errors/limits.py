"""Errors of limits, costs and refunds."""

from collections.abc import Iterable

from penstock.errors.base import PenstockError


class BadLimit(PenstockError, ValueError):
    """An invalid limit, or none at all."""


class BadCost(PenstockError, ValueError):
    """A cost that is not a whole number above zero."""

    def __init__(self, cost: object) -> None:
        self.cost = cost
        super().__init__(f"The cost of a request must be a whole number above zero, not {cost!r}.")


class UnknownCategory(PenstockError):
    """No limits have that name."""

    def __init__(self, category: str | None, known: Iterable[str | None]) -> None:
        self.category = category
        names = sorted("None" if name is None else repr(name) for name in known)
        super().__init__(f"There is no category {category!r}. Known: {', '.join(names)}.")


class NeverGranted(PenstockError, ValueError):
    """A refund without a grant, or of a grant that was refunded before."""

    def __init__(self, timestamp: int, cost: int) -> None:
        self.timestamp, self.cost = timestamp, cost
        super().__init__(
            f"No grant with cost {cost} and timestamp {timestamp} exists, or it was refunded"
            " before. Refund each grant once, with the timestamp and the cost of its consume call."
        )


class CostExceedsLimit(PenstockError):
    """One request costs more than a whole window allows."""

    def __init__(self, cost: int, limit: int, period_ms: int) -> None:
        self.cost, self.limit, self.period_ms = cost, limit, period_ms
        super().__init__(
            f"A request that costs {cost} exceeds the limit of {limit} per {period_ms / 1000:g} s,"
            " so it can never be sent. Request less data at a time."
        )
