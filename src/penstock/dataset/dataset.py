"""A dataset: all that was collected in a data folder or a lake, to read."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from penstock.dataset.books import BookReader
from penstock.dataset.candles import Empty, check_computed, ohlcv
from penstock.dataset.gaps import Coverage, OnGap, check_on_gap, overlaps
from penstock.dataset.listing import Listing
from penstock.dataset.names import Exchanges, Symbols
from penstock.dataset.plans import (
    Choices,
    Computed,
    book_reader,
    books_plan,
    channel_plan,
    computed_plan,
    sql_tables,
)
from penstock.dataset.query import Query
from penstock.dataset.source import Source
from penstock.dataset.times import Time, time_ns, time_range
from penstock.dataset.verify.findings import CHECKS, CheckName, Report
from penstock.dataset.verify.run import verify
from penstock.dataset.view import Names, Numbers, check_choices
from penstock.errors import BadQuery
from penstock.market.channels import (
    AGG_TRADES,
    BOOK_DELTAS,
    BOOK_SNAPSHOTS,
    CANDLES,
    TICKERS,
    TICKERS_24H,
    TRADES,
    Channel,
)
from penstock.market.events import AggTrade, BookDelta, BookSnapshot, Candle, Ticker, Trade
from penstock.market.interval import Interval
from penstock.market.symbol import Symbol

if TYPE_CHECKING:
    from penstock.dataset.sql import SqlResult


class Dataset:
    """All that was collected in one place. Nothing is ever changed.

    Markets are named ``BTC/USDT``, ``btc_usdt`` or as their exchange does; without a market or an
    exchange, all are read. Times are a ``datetime``, ISO text (in UTC unless it has an offset),
    ``"-1h"``, or milliseconds or nanoseconds since 1970; ``since`` is included, ``until`` is not.

    ``on_gap`` says what happens where data of the range is missing: ``warn`` gives a
    ``GapWarning`` that names it, ``raise`` a ``GapError``. ``numbers`` are ``float``, exact
    ``decimal`` or the exchange's own ``text``. ``columns="tardis"`` gives Tardis' names.

    Example::

        data = penstock.open("~/market-data")
        data.trades("BTC/USDT", since="-1h").polars()
    """

    def __init__(self, source: Source, where: str) -> None:
        self._source, self.where = source, where

    def __repr__(self) -> str:
        return f"<penstock dataset at {self.where}>"

    def streams(self) -> list[str]:
        """What there is, as ``exchange.channel.symbol``.

        Example: data.streams()
        """
        return sorted(map(str, self._source.streams()))

    def trades(
        self,
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        since: Time | None = None,
        until: Time | None = None,
        on_gap: OnGap = "warn",
        numbers: Numbers = "float",
        columns: Names = "penstock",
    ) -> Query[Trade]:
        """Single trades.

        Example: data.trades("BTC/USDT", since="2026-11-01").polars()

        Raises:
            NotCollected: a market or an exchange was never collected.
            BadTime, BadQuery: an argument is invalid.
        """
        choices = self._choices(since, until, on_gap, numbers, columns)
        return self._query(TRADES, TRADES.name, symbols, exchange, choices)

    def agg_trades(
        self,
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        since: Time | None = None,
        until: Time | None = None,
        on_gap: OnGap = "warn",
        numbers: Numbers = "float",
        columns: Names = "penstock",
    ) -> Query[AggTrade]:
        """Trades that the exchange has aggregated by order and price.

        Example: data.agg_trades("BTC/USDT", since="-1d").polars()

        Raises:
            NotCollected: a market or an exchange was never collected.
            BadTime, BadQuery: an argument is invalid.
        """
        choices = self._choices(since, until, on_gap, numbers, columns)
        return self._query(AGG_TRADES, AGG_TRADES.name, symbols, exchange, choices)

    def candles(
        self,
        interval: str = "1m",
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        since: Time | None = None,
        until: Time | None = None,
        on_gap: OnGap = "warn",
        numbers: Numbers = "float",
        columns: Names = "penstock",
        from_trades: bool = False,
        empty: Empty = "skip",
    ) -> Query[Candle]:
        """Candles; ``time`` is when they open.

        With ``from_trades`` they are computed from trades, of any interval such as ``7m``: exactly,
        only whole ones. ``empty`` says what is done with intervals without trades: ``skip`` them,
        ``fill`` in the last price, or give ``null``.

        Example: data.candles("7m", "BTC/USDT", from_trades=True).polars()

        Raises:
            NotCollected: a market or an exchange was never collected.
            UnknownInterval: it is not an interval.
            BadTime, BadQuery: an argument is invalid.
        """
        choices = self._choices(since, until, on_gap, numbers, columns)
        length = Interval.parse(interval)
        if not from_trades:
            return self._query(CANDLES, CANDLES.named(interval), symbols, exchange, choices)
        check_computed(length, empty)
        streams = self._source.find_anywhere([TRADES.name], symbols, exchange)
        return Query(computed_plan(self._source, Computed(length, empty), streams, choices))

    def books(
        self,
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        since: Time | None = None,
        until: Time | None = None,
        on_gap: OnGap = "warn",
        numbers: Numbers = "float",
        columns: Names = "penstock",
    ) -> Query[BookDelta | BookSnapshot]:
        """Changes and snapshots of order books, with ``is_snapshot``.

        Example: data.books("BTC/USDT", since="-5m").polars()

        Raises:
            NotCollected: a market or an exchange was never collected.
            BadTime, BadQuery: an argument is invalid.
        """
        choices = self._choices(since, until, on_gap, numbers, columns)
        if columns == "stored":
            raise BadQuery(
                "columns='stored': deltas and snapshots are stored in different columns."
            )
        streams = self._source.find_anywhere(
            [BOOK_DELTAS.name, BOOK_SNAPSHOTS.name], symbols, exchange
        )
        return Query(books_plan(self._source, streams, choices))

    def tickers(
        self,
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        since: Time | None = None,
        until: Time | None = None,
        on_gap: OnGap = "warn",
        numbers: Numbers = "float",
        columns: Names = "penstock",
    ) -> Query[Ticker]:
        """Best bid and ask, and the last price, each time they changed.

        Example: data.tickers("BTC/USDT", since="-1h").polars()

        Raises:
            NotCollected: a market or an exchange was never collected.
            BadTime, BadQuery: an argument is invalid.
        """
        choices = self._choices(since, until, on_gap, numbers, columns)
        return self._query(TICKERS, TICKERS.name, symbols, exchange, choices)

    def tickers_24h(
        self,
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        since: Time | None = None,
        until: Time | None = None,
        on_gap: OnGap = "warn",
        numbers: Numbers = "float",
        columns: Names = "penstock",
    ) -> Query[Ticker]:
        """Statistics of the last 24 hours, where they are a stream of their own.

        Example: data.tickers_24h("BTC/USDT").polars()

        Raises:
            NotCollected: a market or an exchange was never collected.
            BadTime, BadQuery: an argument is invalid.
        """
        choices = self._choices(since, until, on_gap, numbers, columns)
        return self._query(TICKERS_24H, TICKERS_24H.name, symbols, exchange, choices)

    def book(self, symbol: str | Symbol, *, exchange: str | None = None) -> BookReader:
        """The order book of one market, to be rebuilt as it was at any time.

        Example: data.book("BTC/USDT").at("2026-11-01T12:00").best_bid

        Raises:
            NotCollected: the market or the exchange was never collected.
            BadQuery: several exchanges have it: name one.
        """
        return book_reader(self._source, symbol, exchange, self._instant)

    def coverage(
        self,
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        channel: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> Listing[Coverage]:
        """What is complete and what is missing, by market and channel, in order.

        Example: data.coverage("BTC/USDT", channel="trades").polars()

        Raises:
            NotCollected: a market or an exchange was never collected.
            BadTime: an argument is invalid.
        """
        times = time_range(since, until, self._source.clock.now_ns())
        streams = self._source.find_anywhere(
            None if channel is None else {channel}, symbols, exchange
        )
        rows = self._source.coverage(streams)
        return Listing(Coverage, [row for row in rows if overlaps(row, times)])

    def gaps(
        self,
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        channel: str | None = None,
        since: Time | None = None,
        until: Time | None = None,
    ) -> Listing[Coverage]:
        """What is missing: gaps that are not filled yet, and those that cannot be.

        Example: data.gaps().polars()

        Raises:
            NotCollected: a market or an exchange was never collected.
            BadTime: an argument is invalid.
        """
        rows = self.coverage(symbols, exchange=exchange, channel=channel, since=since, until=until)
        missing = [row for row in rows if row.state in ("gap", "unfillable")]
        return Listing(Coverage, missing)

    def sql(
        self, text: str, *, since: Time | None = None, until: Time | None = None
    ) -> "SqlResult":
        """The result of a SELECT in DuckDB's SQL, over one table for each channel.

        Tables have the columns of the frames: ``trades``, ``agg_trades``, ``candles_1m``,
        ``candles_1h`` and so on, ``books``, ``tickers``, ``tickers_24h`` and ``coverage``. Files,
        networks and settings cannot be reached, and nothing can be changed.

        Example: data.sql("SELECT symbol, count(*) FROM trades GROUP BY symbol").polars()

        Raises:
            BadQuery: it is not a SELECT, or DuckDB refuses it.
            BadTime: an argument is invalid.
        """
        from penstock.dataset.sql import run_sql  # noqa: PLC0415 (it imports DuckDB)

        choices = self._choices(since, until, "ignore", "float", "penstock")
        return run_sql(text, sql_tables(self._source, choices))

    def fetch_ohlcv(
        self,
        symbol: str | Symbol,
        timeframe: str = "1m",
        since: Time | None = None,
        limit: int | None = None,
        *,
        exchange: str | None = None,
    ) -> list[list[float]]:
        """Candles in the shape of ccxt: ``[open time in ms, open, high, low, close, volume]``.

        The exchange's own candles if they were collected, else those computed from trades. Without
        ``since``, the latest ``limit`` ones.

        Example: data.fetch_ohlcv("BTC/USDT", "1h", limit=24)

        Raises:
            NotCollected: the market or the exchange was never collected.
            UnknownInterval: it is not an interval.
            BadQuery: several exchanges have it: name one.
        """
        stored = self._source.find([CANDLES.named(timeframe)], symbol, exchange)
        traded = self._source.find([TRADES.name], symbol, exchange)
        exchanges = sorted({each.exchange for each in stored or traded})
        if len(exchanges) > 1:
            raise BadQuery(f"{symbol} is on {', '.join(exchanges)}. Name one: exchange=…")
        query = self.candles(
            timeframe, symbol, exchange=exchange, since=since, from_trades=not stored
        )
        return ohlcv(query.polars(), newest=since is None, limit=limit)

    def verify(
        self,
        symbols: Symbols = None,
        *,
        exchange: Exchanges = None,
        checks: Collection[CheckName] = CHECKS,
    ) -> Report:
        """Check the data against itself; see docs/verify.md for what is checked.

        Example: data.verify("BTC/USDT").clean

        Raises:
            NotCollected: a market or an exchange was never collected.
        """
        return verify(self._source, symbols, exchange, checks)

    def _query(
        self, row: Channel, name: str, symbols: Symbols, exchange: Exchanges, choices: Choices
    ) -> Query[Any]:
        streams = self._source.find_anywhere([name], symbols, exchange)
        return Query(channel_plan(self._source, row, streams, choices))

    def _choices(
        self,
        since: Time | None,
        until: Time | None,
        on_gap: OnGap,
        numbers: Numbers,
        columns: Names,
    ) -> Choices:
        check_on_gap(on_gap)
        check_choices(numbers, columns)
        times = time_range(since, until, self._source.clock.now_ns())
        return Choices(times, on_gap, numbers, columns)

    def range_ns(self, since: Time, until: Time | None, late_ns: int) -> tuple[int, int]:
        """A range of time in nanoseconds; without an end, until so long after now.

        Raises:
            BadTime: one of them is not a time, or the range is empty.
        """
        now_ns = self._source.clock.now_ns()
        end = now_ns + late_ns if until is None else until
        times = time_range(since, end, now_ns)
        assert times.since_ns is not None
        assert times.until_ns is not None
        return times.since_ns, times.until_ns

    def _instant(self, time: Time) -> int:
        return time_ns(time, self._source.clock.now_ns())
