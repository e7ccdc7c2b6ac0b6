"""How far down a book is known."""

from decimal import Decimal

from penstock.collect.horizon import Horizon
from penstock.market.events import BookSnapshot
from penstock.market.levels import LevelText, write_levels
from penstock.market.symbol import Symbol

BTC, ETH = Symbol("BTC", "USDT"), Symbol("ETH", "USDT")


def levels(*prices: str) -> list[LevelText]:
    return [(price, "1") for price in prices]


def snapshot(bids: list[LevelText], asks: list[LevelText]) -> BookSnapshot:
    return BookSnapshot(
        exchange="toy", symbol=BTC, received_at_ns=1, update_id=1, at_ms=None,
        bids_raw=write_levels(bids), asks_raw=write_levels(asks),
    )  # fmt: skip


def test_levels_below_the_end_of_a_full_snapshot_are_not_known() -> None:
    horizon = Horizon(depth=2)
    horizon.note(snapshot(levels("10", "9.5"), levels("11", "12")))

    known = horizon.known(BTC, levels("9.6", "9.50", "9.4"), levels("11.5", "12.0", "12.1"))

    assert known == (levels("9.6", "9.50"), levels("11.5", "12.0"))
    assert horizon.known(BTC, levels("9"), levels("13")) == ([], [])


def test_a_snapshot_that_ended_by_itself_hides_nothing() -> None:
    horizon = Horizon(depth=3)
    horizon.note(snapshot(levels("10", "9"), levels("11", "12", "13")))

    assert horizon.known(BTC, levels("8", "1"), levels("12", "14")) == (
        levels("8", "1"),
        levels("12"),
    )


def test_a_book_that_began_from_no_snapshot_is_known_as_it_is() -> None:
    horizon = Horizon(depth=1)
    horizon.note(snapshot(levels("10"), levels("11")))

    assert horizon.known(ETH, levels("1"), levels("99")) == (levels("1"), levels("99"))


def test_the_newest_snapshot_counts() -> None:
    horizon = Horizon(depth=1)
    horizon.note(snapshot(levels("10"), levels("11")))
    horizon.note(snapshot(levels("8"), levels("9")))

    assert horizon.known(BTC, levels("8", "7"), levels("9", "10")) == (levels("8"), levels("9"))


def test_a_price_among_the_last_fifth_of_the_levels_nears_the_horizon() -> None:
    horizon = Horizon(depth=5)
    horizon.note(snapshot(levels("10", "9", "8", "7", "6"), levels("11", "12", "13", "14", "15")))

    def nears(bid: str | None, ask: str | None) -> tuple[bool, bool]:
        best = [(Decimal(price), Decimal(1)) if price else None for price in (bid, ask)]
        return horizon.nears(BTC, *best), horizon.left(BTC, *best)

    assert nears("7", "14") == (False, False)
    assert nears("6", "11") == nears("10", "15") == (True, False)
    assert nears("5", "11") == nears("10", "16") == (True, True)
    assert nears(None, None) == (False, False)
    assert not horizon.nears(ETH, (Decimal(1), Decimal(1)), None)
    assert horizon.ends(BTC) == (Decimal(6), Decimal(15))
