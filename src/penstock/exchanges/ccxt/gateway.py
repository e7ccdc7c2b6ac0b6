"""The exchange client on ccxt: its methods on one side, the ordinary gateway on the other."""

from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec

from penstock.clock import Clock
from penstock.config import Exchanges
from penstock.errors import BadRequest, RateLimited
from penstock.exchanges.base import Exchange, Feed, Info, Request, SymbolMap
from penstock.exchanges.ccxt.calls import CALLS
from penstock.exchanges.ccxt.client import PREFIX, make, move_streams, pay_through
from penstock.exchanges.ccxt.feed import CcxtFeed, channels_of
from penstock.exchanges.ccxt.refusals import CONFUSED, brought_home, is_ccxts
from penstock.exchanges.gateway import Gateway
from penstock.throttle.gate import Gate
from penstock.throttle.offset import Offset

T = TypeVar("T")


class CcxtGateway:
    """A ``WayOut``. Whatever ccxt sends, it sends through the gateway it was given."""

    def __init__(self, gateway: Gateway, client: Any) -> None:
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
        """How far the exchange's clock is ahead, by the dates of its answers."""
        return self._gateway.offset

    async def fetch(self, request: Request[T]) -> T:
        """See ``WayOut``. ccxt may make several requests of one; each is paid for."""
        result = await self.called(CALLS[request.path](self._client, request.params))
        return request.read(msgspec.json.encode(result), self.clock.now_ns())

    async def learn(self) -> Info:
        """See ``WayOut``."""
        info = await self.fetch(self.exchange.info)
        return info._replace(timeframes=self.exchange.intervals)

    async def measure_clock(self) -> Offset | None:
        """See ``WayOut``."""
        await self.fetch(self.exchange.time or self.exchange.info)
        return self.offset

    def feed(self, symbols: SymbolMap) -> Feed | None:
        """See ``WayOut``."""
        name, clock = self.exchange.name, self.clock
        channels = channels_of(self._client.has)
        return CcxtFeed(name, self._client, self.called, symbols, clock, channels)

    async def aclose(self) -> None:
        """See ``WayOut``."""
        await self._client.close()
        await self._gateway.aclose()

    async def called(self, calling: Awaitable[T]) -> T:
        """What a method of ccxt's gives; its errors are ours.

        Raises:
            UnknownSymbol: the exchange does not list it.
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
        ours = brought_home(error, self.exchange.name, self.clock.now_ms())
        if isinstance(ours, RateLimited):
            # It came by a socket, so nobody has shut the gate yet.
            self.gate.block_until(ours.retry_at_ms)
        return ours


def opened(gateway: Gateway, places: Exchanges) -> CcxtGateway:
    """The client of an exchange, given the gateway it has to use."""
    name = gateway.exchange.name
    client = make(name.removeprefix(PREFIX))
    pay_through(client, gateway, places.rest_urls.get(name))
    if (stream_url := places.stream_urls.get(name)) is not None:
        move_streams(client, stream_url)
    return CcxtGateway(gateway, client)
