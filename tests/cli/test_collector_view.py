"""The collector's view: a row per market, trouble first, and nothing left out unsaid."""

import pytest
from msgspec.structs import replace
from rich.console import Console

from penstock.cli.collector_view import GONE, draw_collector
from penstock.cli.fitting import Viewport
from penstock.collect.status import (
    BookStatus,
    CollectorStatus,
    ConnectionStatus,
    FetchStatus,
    LimitStatus,
    ShardStatus,
    StreamStatus,
    with_books_stopped,
)
from penstock.coverage.stored import IdsStatus

SMALL, LARGE = Viewport(80, 23), Viewport(200, 49)


def book(symbol: str, state: str = "synced", reason: str = "") -> BookStatus:
    return BookStatus(
        symbol=symbol, state=state, reason=reason,  # type: ignore[arg-type]
        update_id=98765432101, resyncs=3, bid="61234.50000000", ask="61234.51000000", audits=7,
    )  # fmt: skip


def stream(channel: str, symbol: str) -> StreamStatus:
    return StreamStatus(
        channel=channel, symbol=symbol, records=1_234_567, per_second=12.5,
        last_id=5_123_456_789, last_price="61234.50000000",
    )  # fmt: skip


def status_of(*symbols: str, **fields: object) -> CollectorStatus:
    made = CollectorStatus(
        exchange="toy", slot="collect-toy", pid=1, started_ms=0, at_ms=133_000, state="running",
        connection="connected",
        streams=[stream(each, symbol) for symbol in symbols for each in ("book_deltas", "trades")],
        books=[book(symbol) for symbol in symbols],
        ids=[IdsStatus(channel="trades", symbol=s, seen=[(1, 9)], missing=[]) for s in symbols],
        limits=[LimitStatus(
            unit="weight", kind="window", used=312, amount=6000, rate=6000, period_ms=60_000
        )],
    )  # fmt: skip
    return replace(made, **fields)


def drawn(status: CollectorStatus, viewport: Viewport = SMALL, state: str = "") -> list[str]:
    console = Console(width=viewport.width)
    with console.capture() as captured:
        console.print(draw_collector(status, viewport, state=state))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert max(map(len, lines)) <= viewport.width
    assert viewport.height is None or len(lines) <= viewport.height
    return lines


def row(lines: list[str], symbol: str) -> list[str]:
    (found,) = (line for line in lines if line.startswith(f"{symbol} "))
    return found.split()


def test_a_market_has_one_row_with_its_book_whatever_the_width() -> None:
    narrow = drawn(status_of("btc_usdt", "eth_usdt"))
    wide = drawn(status_of("btc_usdt", "eth_usdt"), LARGE)

    assert row(narrow, "btc_usdt")[:5] == ["btc_usdt", "synced", "1,234,567", "0", "25"]
    assert "61234.51" in row(narrow, "btc_usdt"), "without zeros that nobody reads"
    assert "5123456789" not in "".join(narrow)
    assert row(wide, "btc_usdt")[-5:] == ["2,469,134", "3", "7", "5123456789", "98765432101"]
    assert "weight 312 of 6,000 per minute" in "".join(narrow)
    assert "running for 0:02:13" in narrow[0]
    assert "2 of 2 books synced" in narrow[0]


def test_of_four_hundred_markets_those_in_trouble_come_first_and_the_rest_is_counted() -> None:
    symbols = [f"m{number:03}_usdt" for number in range(400)]
    status = status_of(*symbols)
    books = [*status.books[:-1], book("m399_usdt", "stale", "gap: 3 updates after 17 were lost")]
    ids = [*status.ids]
    ids[200] = replace(ids[200], missing=[(4, 6)])
    lines = drawn(replace(status, books=books, ids=ids))

    assert "! m399_usdt: stale: gap: 3 updates after 17 were lost" in lines
    rows = [line.split()[0] for line in lines if line.startswith("m")]
    assert rows[:3] == ["m399_usdt", "m200_usdt", "m000_usdt"]
    assert row(lines, "m399_usdt")[1] == "stale"
    assert row(lines, "m200_usdt")[3] == "3"
    assert f"… and {400 - len(rows)} more, all fine" in lines
    assert len(lines) == SMALL.height


def test_where_not_even_all_troubles_fit_they_are_counted() -> None:
    symbols = [f"m{number:03}_usdt" for number in range(60)]
    reasons = [f"gap: {number} updates were lost" for number in range(60)]
    books = [book(*each) for each in zip(symbols, ["stale"] * 60, reasons, strict=True)]
    lines = drawn(replace(status_of(*symbols), books=books, refused=["-1121: Invalid symbol."]))

    assert "! refused by the exchange: -1121: Invalid symbol." in lines
    (more,) = (line for line in lines if line.startswith("! …"))
    told = sum(line.startswith("! ") for line in lines) - 1
    assert more == f"! … and {61 - told} more; all of it: penstock status --json"
    rows = sum(line.startswith("m") for line in lines)
    assert rows >= 2
    assert f"… and {60 - rows} more: {60 - rows} with a book that is not synced" in lines


def test_books_that_wait_for_the_same_thing_are_told_together() -> None:
    symbols = [f"m{number}_usdt" for number in range(7)]
    books = [book(symbol, "syncing", "no delta yet") for symbol in symbols]
    (line,) = (each for each in drawn(status_of(*symbols, books=books)) if each.startswith("!"))

    assert line == (
        "! m0_usdt, m1_usdt, m2_usdt, m3_usdt, m4_usdt and 2 more: syncing: no delta yet"
    )


def test_every_kind_of_trouble_is_told_whole_at_any_width() -> None:
    long = "the disk is full: " + " ".join(["word"] * 40) + " last"
    status = status_of(
        "btc_usdt", trouble=long, stalled=["trades btc_usdt"], malformed={"no JSON": 2},
        bus_dropped=5, pending=[f"s{number}@trade" for number in range(7)],
    )  # fmt: skip
    text = " ".join(" ".join(line.split()) for line in drawn(status))

    assert long in text
    assert "stalled, though their markets move: trades btc_usdt" in text
    assert "malformed frames: 2 × no JSON" in text
    assert "dropped by the bus 5; the log has them" in text
    assert "s4@trade and 2 more" in text
    assert "s5@trade" not in text


@pytest.mark.parametrize("state", ["stopped", "failed", GONE])
def test_a_collector_that_ended_shows_no_book_as_synced(state: str) -> None:
    kept = "running" if state == GONE else state
    status = with_books_stopped(status_of("btc_usdt", state=kept, trouble="disk full"))
    lines = drawn(status, state=GONE if state == GONE else "")

    assert state in lines[0]
    assert "trouble: disk full" in "".join(lines)
    assert row(lines, "btc_usdt")[1] == "stopped"
    assert "synced" not in "".join(lines)
    assert "weight" not in "".join(lines), "nothing is used any more"


def test_a_fetcher_shows_what_fails_first_and_why() -> None:
    def fetch(symbol: str, reason: str = "") -> FetchStatus:
        return FetchStatus(
            what="trades", symbol=symbol, fetches=9, records=1234, errors=2, errors_in_a_row=0,
            last_ms=0, next_ms=0, reason=reason,
        )  # fmt: skip

    fetches = [fetch("btc_usdt"), fetch("eth_usdt", "Could not reach it")]
    lines = drawn(replace(status_of(), fetches=fetches))

    assert "! trades eth_usdt: Could not reach it" in lines
    (first, second) = (line.split() for line in lines if line.startswith("trades"))
    assert first == ["trades", "eth_usdt", "failing", "9", "1,234", "2", "00:00:00"]
    assert second[:3] == ["trades", "btc_usdt", "fine"]
    assert "missing" not in "".join(lines), "a fetcher counts none, so it claims nothing"


def member(number: int, up_s: int | None) -> ConnectionStatus:
    return ConnectionStatus(number=number, state="connected", is_primary=number == 1, up_s=up_s)


def test_connections_are_summed_up() -> None:
    shards = [
        ShardStatus(
            state="rotating", members=[member(1, 9000), member(2, 130)], rotations={"old age": 3}
        ),
        ShardStatus(
            state="connected", members=[member(1, None)], given_up={"refused": 1}, dropped=1234
        ),
    ]
    view = " ".join(" ".join(drawn(status_of(shards=shards))).split())

    assert "connections 3, the youngest for 2 min, replaced 3 times, in vain 1 times" in view
    assert "1,234 copies dropped" in view


def test_without_connections_nothing_is_said_of_them() -> None:
    def shown(shards: list[ShardStatus]) -> str:
        return " ".join(drawn(status_of(shards=shards)))

    assert "connections" not in shown([])
    assert "for no time" in shown([ShardStatus(state="connecting", members=[member(1, None)])])
    assert "for 7 s" in shown([ShardStatus(state="connected", members=[member(1, 7)])])
    assert "for 3 h" in shown([ShardStatus(state="connected", members=[member(1, 10_900)])])
