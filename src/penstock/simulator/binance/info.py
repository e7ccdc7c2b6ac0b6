"""Builds ``exchangeInfo``: the listed symbols, their price and quantity steps, and the limits.

A symbol's entry never changes, so each is encoded once, with and without its permission sets.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.simulator.binance import refusals
from penstock.simulator.binance.instrument import Instrument
from penstock.simulator.binance.parameters import Listed, Parameters
from penstock.simulator.binance.rules import Limits
from penstock.simulator.binance.spelling import exact
from penstock.simulator.binance.units import TimeUnit
from penstock.simulator.engine.exchange import Query
from penstock.simulator.market.market import Listing

PARAMETERS = ("symbol", "symbols", "permissions", "showPermissionSets", "symbolStatus")
PERMISSION = "SPOT"

_PERMISSIONS = frozenset(("SPOT", "MARGIN", "LEVERAGED")) | {
    f"TRD_GRP_{number:03}" for number in range(2, 251)
}
_MOST_LOTS = 10**12
_LEAST_NOTIONAL = {"BTC": "0.00010000", "ETH": "0.00100000"}


class Information:
    """The responses of ``exchangeInfo``."""

    def __init__(self, listed: Listed, instruments: Sequence[Instrument], limits: Limits) -> None:
        self._listed = listed
        self._limits = limits
        self._entries = {
            each.symbol: (
                _entry(each.market.listing, []),
                _entry(each.market.listing, [[PERMISSION]]),
            )
            for each in instruments
        }

    def answer(self, unit: TimeUnit, query: Query, as_of_ms: int) -> bytes:
        """``exchangeInfo``."""
        parameters = Parameters(query, PARAMETERS)
        shows_sets = parameters.one_of("showPermissionSets", ("true", "false")) != "false"
        chosen = self._chosen(parameters, as_of_ms)
        entries = b",".join(self._entries[each.symbol][shows_sets] for each in chosen)
        rates = msgspec.json.encode(self._limits.announcement())
        return (
            b'{"timezone":"UTC","serverTime":%b,"rateLimits":%b,"exchangeFilters":[],"symbols":[%b]}'
            % ((unit.instant % as_of_ms).encode(), rates, entries)
        )

    def _chosen(self, parameters: Parameters, as_of_ms: int) -> Sequence[Instrument]:
        selectors = [
            name
            for name in ("symbol", "symbols", "permissions", "symbolStatus")
            if name in parameters
        ]
        names_symbols = "symbol" in parameters or "symbols" in parameters
        if names_symbols and len(selectors) > 1:
            raise refusals.bad_combination()
        status = parameters.status()
        if "symbol" in parameters:
            return [self._listed.one(parameters, as_of_ms)]
        if "symbols" in parameters:
            return self._listed.several(parameters, as_of_ms)
        asked = _permissions(parameters)
        is_shown = status in (None, "TRADING") and (asked is None or PERMISSION in asked)
        return self._listed.all(as_of_ms) if is_shown else ()


def _permissions(parameters: Parameters) -> list[str] | None:
    text = parameters.text("permissions")
    if text is None:
        return None
    try:
        asked = msgspec.json.decode(text, type=list[str]) if text.startswith("[") else [text]
    except msgspec.DecodeError:
        raise refusals.invalid("permissions") from None
    if not _PERMISSIONS.issuperset(asked):
        raise refusals.invalid("permissions")
    return asked


def _entry(listing: Listing, permission_sets: list[list[str]]) -> bytes:
    modes = ["EXPIRE_TAKER", "EXPIRE_MAKER", "EXPIRE_BOTH"]
    entry: dict[str, Any] = {
        "symbol": listing.base + listing.quote,
        "status": "TRADING",
        "baseAsset": listing.base,
        "baseAssetPrecision": 8,
        "quoteAsset": listing.quote,
        "quotePrecision": 8,
        "quoteAssetPrecision": 8,
        "baseCommissionPrecision": 8,
        "quoteCommissionPrecision": 8,
        "orderTypes": ["LIMIT", "LIMIT_MAKER", "MARKET", "STOP_LOSS_LIMIT", "TAKE_PROFIT_LIMIT"],
        "icebergAllowed": True,
        "ocoAllowed": True,
        "otoAllowed": True,
        "opoAllowed": True,
        "quoteOrderQtyMarketAllowed": True,
        "allowTrailingStop": True,
        "cancelReplaceAllowed": True,
        "amendAllowed": True,
        "pegInstructionsAllowed": True,
        "isSpotTradingAllowed": True,
        "isMarginTradingAllowed": False,
        "filters": _filters(listing),
        "permissions": [],
        "permissionSets": permission_sets,
        "defaultSelfTradePreventionMode": "EXPIRE_MAKER",
        "allowedSelfTradePreventionModes": modes,
    }
    return msgspec.json.encode(entry)


def _filters(listing: Listing) -> list[dict[str, Any]]:
    tick = exact(1, listing.price_decimals)
    lot = exact(1, listing.quantity_decimals)
    most = exact(_MOST_LOTS, listing.quantity_decimals)
    highest = exact(10 ** (len(str(listing.start_price)) + 2), listing.price_decimals)
    return [
        {"filterType": "PRICE_FILTER", "minPrice": tick, "maxPrice": highest, "tickSize": tick},
        {"filterType": "LOT_SIZE", "minQty": lot, "maxQty": most, "stepSize": lot},
        {"filterType": "ICEBERG_PARTS", "limit": 10},
        {
            "filterType": "MARKET_LOT_SIZE",
            "minQty": exact(0, 8),
            "maxQty": most,
            "stepSize": exact(0, 8),
        },
        {
            "filterType": "NOTIONAL",
            "minNotional": _LEAST_NOTIONAL.get(listing.quote, "5.00000000"),
            "applyMinToMarket": True,
            "maxNotional": "9000000.00000000",
            "applyMaxToMarket": False,
            "avgPriceMins": 5,
        },
        {"filterType": "MAX_NUM_ORDERS", "maxNumOrders": 200},
        {"filterType": "MAX_NUM_ALGO_ORDERS", "maxNumAlgoOrders": 5},
    ]
