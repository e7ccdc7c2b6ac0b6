"""The latest tick of every market, until it is too old.

The key is ``exchange:SYMBOL``. A tick expires ``ttl_s`` after it was received, however late it is
written. It never replaces one that is newer: by the exchange's update id, else by the exchange's
time, else by when it was received.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from decimal import Decimal

from msgspec import Struct
from msgspec.structs import replace

from penstock.clock import Clock
from penstock.errors import BadTick, MalformedSymbol, NotOurRecord
from penstock.live.opening import LiveCache, StoreOrUrl
from penstock.market.codec import VERSION, decode, encode, json_of
from penstock.market.events import Ticker
from penstock.market.symbol import Symbol
from penstock.storage.cache import LiveValue, Order
from penstock.storage.cache.values import MAX_NUMBER
from penstock.storage.cache.watching import Subscription

SPACE = "ticks"
TTL_S = 300.0
STALE_AFTER_S = 60.0

_FORMAT = bytes([VERSION])


class Tick(Struct, frozen=True):
    """The latest tick of a market, as of when it was read."""

    ticker: Ticker
    age_ms: int
    """The time since it was received, by the store's clock."""
    stale: bool
    """Whether it is older than ``stale_after_s``: the market is quiet, or is not collected."""

    @property
    def key(self) -> str:
        return key_of(self.exchange, self.symbol)

    @property
    def exchange(self) -> str:
        return self.ticker.exchange

    @property
    def symbol(self) -> Symbol:
        return self.ticker.symbol

    @property
    def bid(self) -> Decimal | None:
        return self.ticker.bid

    @property
    def ask(self) -> Decimal | None:
        return self.ticker.ask

    @property
    def last(self) -> Decimal | None:
        return self.ticker.last


class TickCache(LiveCache):
    """The latest ticks, shared by all processes with the same store.

    Entered with ``async with``, and kept open: opening a store costs more than many ticks. With an
    open store it need not be entered.
    """

    def __init__(
        self,
        store: StoreOrUrl = None,
        *,
        ttl_s: float = TTL_S,
        stale_after_s: float = STALE_AFTER_S,
        clock: Clock | None = None,
    ) -> None:
        """``store`` is an open one or its URL; without it, the file of the default data folder."""
        super().__init__(store, clock)
        self._ttl_ms, self._stale_ms = round(ttl_s * 1000), round(stale_after_s * 1000)

    @property
    def where(self) -> str:
        """The address of its store for messages, without a password."""
        return self._opening.store.where

    async def set_ticker(self, ticker: Ticker) -> bool:
        """Store a tick; return whether it is the newest of its market, and has not expired.

        Raises:
            BadTick: it is no tick.
            StoreUnreachable, StorageFull, LoginRejected: the store does not take it.
        """
        return await self.set_tickers([ticker]) == 1

    async def set_tickers(self, tickers: Iterable[Ticker]) -> int:
        """Store ticks as one batch; return how many were the newest of their markets.

        Raises:
            BadTick: one of them is no tick. Nothing was stored.
            StoreUnreachable, StorageFull, LoginRejected: the store does not take them.
        """
        return await self.set_checked([check_tick(ticker) for ticker in tickers])

    async def set_checked(self, tickers: Iterable[Ticker]) -> int:
        """Like ``set_tickers``, for ticks that ``check_tick`` has returned."""
        now_ns = self._clock.now_ns()
        values = [self._value(ticker, now_ns) for ticker in tickers]
        return await self._opening.store.put(SPACE, values)

    def unexpired(self, tickers: Iterable[Ticker]) -> list[Ticker]:
        """Those that are not too old to be stored."""
        oldest_ns = self._clock.now_ns() - self._ttl_ms * 1_000_000
        return [ticker for ticker in tickers if ticker.received_at_ns > oldest_ns]

    def aged(self, tick: Tick, by_ms: int) -> Tick | None:
        """A tick that was read some time ago, as it is now; None if it has expired since."""
        age_ms = tick.age_ms + by_ms
        if age_ms >= self._ttl_ms:
            return None
        return replace(tick, age_ms=age_ms, stale=age_ms > self._stale_ms)

    async def get_ticker(self, symbol: Symbol | str, exchange: str) -> Tick | None:
        """The latest tick of a market; None if there is none, or it has expired.

        Raises:
            MalformedSymbol: ``symbol`` is no symbol.
            StoreUnreachable, LoginRejected: the store cannot be read.
        """
        found = await self._opening.store.get(SPACE, key_of(exchange, symbol))
        return None if found is None else self._tick(found)

    async def get_all(self, exchange: str | None = None) -> list[Tick]:
        """The latest ticks of all markets, or of those of one exchange, by key.

        Raises:
            StoreUnreachable, LoginRejected: the store cannot be read.
        """
        found = map(self._tick, await self._opening.store.find(SPACE))
        return [tick for tick in found if tick is not None and exchange in (None, tick.exchange)]

    @asynccontextmanager
    async def subscribe(
        self, exchange: str | None = None, symbol: Symbol | str | None = None
    ) -> AsyncIterator[AsyncIterator[list[Tick]]]:
        """Ticks as they change, in batches, beginning with the present ones.

        A batch has the newest tick of each market that changed since the last batch, so a slow
        reader skips ticks and needs no memory for them. While the store does not answer there is no
        batch; then all present ticks come again.

        Raises:
            MalformedSymbol: ``symbol`` is no symbol.
        """
        wanted = None if symbol is None else _symbol(symbol)
        async with self._opening.store.changes(SPACE) as changes:
            yield self._batches(changes, exchange, wanted)

    async def _batches(
        self, changes: Subscription, exchange: str | None, symbol: Symbol | None
    ) -> AsyncIterator[list[Tick]]:
        while True:
            batch = [
                tick
                for tick in map(self._tick, await changes.next_batch())
                if tick is not None
                and exchange in (None, tick.exchange)
                and symbol in (None, tick.symbol)
            ]
            if batch:
                yield batch

    def _value(self, ticker: Ticker, now_ns: int) -> LiveValue:
        order = order_of(ticker)
        return LiveValue(
            key_of(ticker.exchange, ticker.symbol), json_of(encode(ticker)), self._ttl_ms,
            _age_ms(ticker, now_ns), order.line, order.number,
        )  # fmt: skip

    def _tick(self, found: LiveValue) -> Tick | None:
        """A tick; None if it was written by a newer version, or by another program."""
        try:
            ticker = decode(_FORMAT + found.value)
        except NotOurRecord:
            return None
        if not isinstance(ticker, Ticker):
            return None
        return Tick(ticker, found.age_ms, found.age_ms > self._stale_ms)


def key_of(exchange: str, symbol: Symbol | str) -> str:
    """The key of a market, such as ``sim:BTC/USDT``.

    Raises:
        MalformedSymbol: ``symbol`` is no symbol.
    """
    return f"{exchange}:{_symbol(symbol).unified}"


def order_of(ticker: Ticker) -> Order:
    """What decides which of two ticks of a market is the newer."""
    update_id, at_ns = ticker.update_id, ticker.at_ns
    if update_id is not None and 0 <= update_id <= MAX_NUMBER:
        return Order("u", update_id, ticker.received_at_ns)
    if at_ns is not None and 0 <= at_ns <= MAX_NUMBER:
        return Order("t", at_ns, ticker.received_at_ns)
    return Order("", 0, ticker.received_at_ns)


def check_tick(ticker: object) -> Ticker:
    """Return a tick, if it is one.

    Raises:
        BadTick: it is none.
    """
    if not isinstance(ticker, Ticker):
        raise BadTick(f"it is a {type(ticker).__name__}")
    # Events are not validated when they are made.
    exchange: object = ticker.exchange
    symbol: object = ticker.symbol
    if not isinstance(symbol, Symbol):
        raise BadTick(f"its symbol is a {type(symbol).__name__}, not a Symbol")
    if not isinstance(exchange, str) or not exchange or not exchange.isprintable():
        raise BadTick("its exchange is not the name of one")
    if type(ticker.received_at_ns) is not int:
        raise BadTick("it does not say when it was received")
    return ticker


def _symbol(symbol: object) -> Symbol:
    if isinstance(symbol, Symbol):
        return symbol
    if not isinstance(symbol, str):
        raise MalformedSymbol(repr(symbol)[:80], "it is neither a text nor a Symbol")
    return Symbol.parse(symbol)


def _age_ms(ticker: Ticker, now_ns: int) -> int:
    age_ns = now_ns - ticker.received_at_ns
    return age_ns // 1_000_000 if age_ns > 0 else 0
