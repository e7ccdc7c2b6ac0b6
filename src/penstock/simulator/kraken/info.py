"""Describes the exchange's assets and pairs, for REST and for the instrument channel.

Two entries of ``AssetPairs`` exist only in that list: a dark pool, as Kraken used to have, and a
pair that is being closed. Neither has a wsname, and clients cannot use them.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from penstock.simulator.engine.exchange import Query
from penstock.simulator.kraken import refusals
from penstock.simulator.kraken.instrument import Instrument
from penstock.simulator.kraken.names import Asset, asset
from penstock.simulator.kraken.parameters import Listed
from penstock.simulator.kraken.spelling import QUANTITY_DECIMALS

Row = dict[str, object]

_FEES = [[0, 0.4], [10_000, 0.35], [50_000, 0.24], [100_000, 0.22], [250_000, 0.2]]
_FEES_MAKER = [[0, 0.25], [10_000, 0.2], [50_000, 0.14], [100_000, 0.12], [250_000, 0.08]]
_COST_DECIMALS = 5
_PARTS: Mapping[str, tuple[str, ...] | None] = {
    "info": None,
    "leverage": ("leverage_buy", "leverage_sell"),
    "fees": ("fees", "fees_maker", "fee_volume_currency"),
    "margin": ("margin_call", "margin_stop"),
}
_DARK_POOL = ("XETHXXBT", ".d")
_CLOSING = "XBTCHF"
# Decimals and display decimals: those of most coins, and exceptions by asset id.
_COIN_DECIMALS = (10, 5)
_DECIMALS = {"XXDG": (8, 2), "XXRP": (8, 5), "XXLM": (8, 5), "USDT": (8, 4)}


class Information:
    """The responses of ``Assets`` and ``AssetPairs``."""

    def __init__(self, listed: Listed) -> None:
        self._listed = listed

    def assets(self, query: Query, as_of_ms: int) -> bytes:
        """``Assets``."""
        if query.get("aclass", "currency") != "currency":
            raise refusals.invalid("aclass")
        known = _assets(self._listed.all(as_of_ms).values())
        wanted = query.get("asset", "")
        if not wanted:
            return _encode({each.id: _asset(each) for each in known})
        by_name = {name: each for each in known for name in (each.id, each.short, each.symbol)}
        found = [by_name.get(name.strip()) for name in wanted.split(",")]
        if None in found:
            raise refusals.unknown_asset()
        return _encode({each.id: _asset(each) for each in found if each is not None})

    def pairs(self, query: Query, as_of_ms: int) -> bytes:
        """``AssetPairs``."""
        part = query.get("info", "info")
        if part not in _PARTS:
            raise refusals.invalid("info")
        chosen = self._listed.several(query, as_of_ms)
        rows = {name: _pair(each) for name, each in chosen.items()}
        if not query.get("pair"):
            rows = dict(sorted({**rows, **_untradable(rows)}.items()))
        names = _PARTS[part]
        if names is not None:
            rows = {pair: {name: row[name] for name in names} for pair, row in rows.items()}
        return _encode(rows)


def instruments(listed: Sequence[Instrument]) -> bytes:
    """The snapshot of the instrument channel."""
    assets = [
        f'{{"id":"{each.symbol}","status":"enabled","precision":{_decimals(each)[0]},'
        f'"precision_display":{_decimals(each)[1]},"borrowable":false,"collateral_value":0.00}}'
        for each in _assets(listed)
    ]
    pairs = [_instrument(each) for each in listed]
    return (
        '{"channel":"instrument","type":"snapshot","data":'
        f'{{"assets":[{",".join(assets)}],"pairs":[{",".join(pairs)}]}}}}'
    ).encode()


def _instrument(instrument: Instrument) -> str:
    listing, pair = instrument.market.listing, instrument.pair
    tick = _power(listing.price_decimals)
    return (
        f'{{"symbol":"{pair.symbol}","base":"{pair.base.symbol}","quote":"{pair.quote.symbol}",'
        f'"status":"online","qty_precision":{QUANTITY_DECIMALS},'
        f'"qty_increment":{_power(QUANTITY_DECIMALS)},"price_precision":{listing.price_decimals},'
        f'"cost_precision":{_COST_DECIMALS},"marginable":false,"has_index":true,"cost_min":0.50,'
        f'"tick_size":{tick},"price_increment":{tick},"qty_min":{_power(listing.quantity_decimals)}}}'
    )


def _power(decimals: int) -> str:
    """10^-decimals, with an exponent if there are more than four decimals."""
    return f"1e-{decimals:02}" if decimals > 4 else f"0.{1:0{decimals}}" if decimals else "1"


def _assets(listed: Iterable[Instrument]) -> list[Asset]:
    found = {each.id: each for one in listed for each in (one.pair.base, one.pair.quote)}
    return [found[asset_id] for asset_id in sorted(found)]


def _decimals(each: Asset) -> tuple[int, int]:
    return (4, 2) if each.is_currency else _DECIMALS.get(each.id, _COIN_DECIMALS)


def _asset(each: Asset) -> Row:
    decimals, shown = _decimals(each)
    return {
        "aclass": "currency",
        "altname": each.short,
        "decimals": decimals,
        "display_decimals": shown,
        "status": "enabled",
    }


def _pair(instrument: Instrument) -> Row:
    listing, pair = instrument.market.listing, instrument.pair
    least = f"{0:.{listing.quantity_decimals}f}"[:-1] + "1"
    return {
        "altname": pair.short,
        "wsname": pair.slashed,
        "aclass_base": "currency",
        "base": pair.base.id,
        "aclass_quote": "currency",
        "quote": pair.quote.id,
        "lot": "unit",
        "cost_decimals": _COST_DECIMALS,
        "pair_decimals": listing.price_decimals,
        "lot_decimals": QUANTITY_DECIMALS,
        "lot_multiplier": 1,
        "leverage_buy": [],
        "leverage_sell": [],
        "fees": _FEES,
        "fees_maker": _FEES_MAKER,
        "fee_volume_currency": "ZUSD",
        "margin_call": 80,
        "margin_stop": 40,
        "ordermin": least,
        "costmin": "0.5",
        "tick_size": f"{0:.{listing.price_decimals}f}"[:-1] + "1",
        "status": "online",
        "execution_venue": "international",
    }


def _untradable(rows: Mapping[str, Row]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    original, suffix = _DARK_POOL
    for name, row in rows.items():
        bare = {field: value for field, value in row.items() if field != "wsname"}
        if name == original:
            found[name + suffix] = {**bare, "altname": f"{row['altname']}{suffix}"}
        if row["altname"] == "XBTEUR":
            closing = {"altname": _CLOSING, "quote": asset("CHF").id, "status": "cancel_only"}
            found[_CLOSING] = {**bare, **closing}
    return found


def _encode(rows: Mapping[str, Row]) -> bytes:
    # Kraken escapes the slash in wsname.
    return msgspec.json.encode(rows).replace(b"/", b"\\/")
