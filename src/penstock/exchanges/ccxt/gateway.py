"""An exchange client that calls ccxt's methods and sends through the ordinary gateway."""

from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from penstock.clock import Clock
from penstock.config import Exchanges
from penstock.errors import BadRequest, RateLimited
from penstock.exchanges.base import Exchange, ExchangeClient, Feed, Info, Request
from penstock.exchanges.ccxt.feed import CcxtFeed, channels_of
from penstock.exchanges.ccxt.library.calls import CALLS
from penstock.exchanges.ccxt.library.client import PREFIX, make, move_streams, send_through
from penstock.exchanges.ccxt.library.refusals import CONFUSED, as_penstock_error, is_ccxts
from penstock.exchanges.symbol_map import SymbolMap
from penstock.throttle.gate import Gate
from penstock.throttle.offset import Offset

T = TypeVar("T")


class CcxtGateway:
    """An ``ExchangeClient``. All REST requests of ccxt go through the given gateway."""

    def __init__(self, gateway: ExchangeClient, client: Any) -> None:
        self._gateway, self._client = gateway, client

    @property
    def exchange(self) -> Exchange:
        return self._gateway.exchange

    @property
    def gate(self) -> Gate:
        return self._gateway.gate

    @property
    def clock(self) -> Clock:
        return self._gateway.clock

    @property
    def offset(self) -> Offset | None:
        """How far the exchange's clock is ahead, by the ``Date`` of its responses."""
        return self._gateway.offset

    @property
    def latency_ms(self) -> float | None:
        """See ``ExchangeClient``. Of single requests, not of ccxt's methods."""
        return self._gateway.latency_ms

    async def fetch(self, request: Request[T]) -> T:
        """See ``ExchangeClient``. ccxt may send several requests for one; each needs a grant."""
        result = await self.called(CALLS[request.path](self._client, request.params))
        return request.read(msgspec.json.encode(result), self.clock.now_ns())

    async def learn(self) -> Info:
        """See ``ExchangeClient``."""
        info = await self.fetch(self.exchange.info)
        return info._replace(timeframes=self.exchange.intervals)

    async def measure_clock(self) -> Offset | None:
        """See ``ExchangeClient``."""
        await self.fetch(self.exchange.time or self.exchange.info)
        return self.offset

    def feed(self, symbols: SymbolMap) -> Feed | None:
        """See ``ExchangeClient``."""
        name, clock = self.exchange.name, self.clock
        channels = channels_of(self._client.has)
        return CcxtFeed(name, self._client, self.called, symbols, clock, channels)

    async def aclose(self) -> None:
        """See ``ExchangeClient``."""
        await self._client.close()
        await self._gateway.aclose()

    async def called(self, calling: Awaitable[T]) -> T:
        """The result of one of ccxt's methods; its errors are converted to penstock's.

        Raises:
            UnknownSymbol: the exchange does not list the symbol.
            ExchangeError, ExchangeUnreachable, UnexpectedAnswer: as ``Gateway.fetch`` does.
        """
        try:
            return await calling
        except (BadRequest, *CONFUSED) as error:
            raise self._ours(error) from error
        except Exception as error:
            if not is_ccxts(error):
                raise
            raise self._ours(error) from error

    def _ours(self, error: Exception) -> Exception:
        ours = as_penstock_error(error, self.exchange.name, self.clock.now_ms())
        if isinstance(ours, RateLimited):
            # The error came from a socket, so the gate is not blocked yet.
            self.gate.block_until(ours.retry_at_ms)
        return ours


def opened(gateway: ExchangeClient, places: Exchanges) -> CcxtGateway:
    """The client of an exchange that uses this gateway."""
    name = gateway.exchange.name
    client = make(name.removeprefix(PREFIX))
    send_through(client, gateway, places.rest_urls.get(name))
    if (stream_url := places.stream_urls.get(name)) is not None:
        move_streams(client, stream_url)
    return CcxtGateway(gateway, client)
