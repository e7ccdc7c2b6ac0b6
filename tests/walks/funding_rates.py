"""The channel of docs/add-a-channel.md: an event, a row, and its streams in Binance's dialect."""

from typing import Annotated

from msgspec import Meta, Struct, field

from penstock.exchanges.named_frames import NamedChannel
from penstock.exchanges.row_events import StampedEvents
from penstock.market.channels import Channel, Probe, contents
from penstock.market.events import Event
from penstock.market.symbol import Symbol


class FundingRate(Event, frozen=True, kw_only=True, gc=False, tag="funding_rate"):
    """What the holders of long positions pay to those of short ones at the next funding."""

    at_ns: int
    rate_text: str = field(name="rate")
    next_ms: int
    """When it is paid."""


FUNDING_RATES = Channel(
    name="funding_rates",
    event=FundingRate,
    id_kind="receipt",
    dedupe_key=contents,
    liveness=Probe(),
)


class FundingPayload(Struct, gc=False):
    """<s>@markPrice

    {"e":"markPriceUpdate","E":1562305380000,"s":"BTCUSDT","p":"11794.15000000",
     "r":"-0.00038167","T":1562306400000}
    """

    at_ms: int = field(name="E")
    rate: Annotated[str, Meta(pattern=r"^-?[0-9]+\.[0-9]+$")] = field(name="r")
    next_ms: int = field(name="T")


def funding_rate(
    _: StampedEvents, data: FundingPayload, symbol: Symbol, received_at_ns: int
) -> FundingRate:
    """Reads <s>@markPrice."""
    return FundingRate(
        exchange="binance",
        symbol=symbol,
        received_at_ns=received_at_ns,
        at_ns=data.at_ms * 1_000_000,
        rate_text=data.rate,
        next_ms=data.next_ms,
    )


STREAMED = {"funding_rates": NamedChannel("markPrice", FundingPayload, funding_rate)}
