"""Builds ``products`` and ``currencies``: what is listed, with price and quantity steps.

The list also has entries that clients must be able to skip: an auction book with the base currency
of the ordinary book, and a delisted product. Neither has data.
"""

from collections.abc import Sequence
from typing import Any

from penstock.simulator.coinbase.product import Product
from penstock.simulator.coinbase.spelling import padded

FIAT = ("USD", "EUR", "GBP")
_AUCTIONED = "BTC-USD"
_DELISTED = ("REP", "USD")


def products(listed: Sequence[Product]) -> list[dict[str, Any]]:
    """All entries of ``products``."""
    entries = []
    for each in listed:
        listing = each.market.listing
        steps = each.spelling.price(1), each.spelling.size(1)
        entry = _entry(each.id, (listing.base, listing.quote), steps)
        entries.append(entry)
        if each.id == _AUCTIONED:
            auction = {**entry, "id": "BTCAUCTION-USD", "display_name": "BTCAUCTION/USD"}
            entries.append({**auction, "cancel_only": True, "auction_mode": True})
    delisted = _entry("-".join(_DELISTED), _DELISTED, ("0.01", "0.000001"))
    entries.append({**delisted, "status": "delisted", "trading_disabled": True})
    return entries


def _entry(product_id: str, pair: tuple[str, str], steps: tuple[str, str]) -> dict[str, Any]:
    return {
        "id": product_id,
        "base_currency": pair[0],
        "quote_currency": pair[1],
        "quote_increment": steps[0],
        "base_increment": steps[1],
        "display_name": f"{pair[0]}/{pair[1]}",
        "min_market_funds": "1",
        "margin_enabled": False,
        "post_only": False,
        "limit_only": False,
        "cancel_only": False,
        "status": "online",
        "status_message": "",
        "trading_disabled": False,
        "fx_stablecoin": False,
        "max_slippage_percentage": "0.02000000",
        "auction_mode": False,
        "high_bid_limit_percentage": "",
    }


def currencies(listed: Sequence[Product]) -> list[dict[str, Any]]:
    """All entries of ``currencies``, without duplicates."""
    decimals: dict[str, int] = {}
    for each in listed:
        listing = each.market.listing
        decimals[listing.base] = max(listing.quantity_decimals, decimals.get(listing.base, 0))
        decimals.setdefault(listing.quote, listing.price_decimals)
    return [_currency(name, places) for name, places in decimals.items()]


def _currency(name: str, decimals: int) -> dict[str, Any]:
    is_fiat = name in FIAT
    step = padded(1, decimals)
    network = name.lower()
    return {
        "id": name,
        "name": name,
        "min_size": step,
        "status": "online",
        "message": "",
        "max_precision": step,
        "convertible_to": [],
        "details": {
            "type": "fiat" if is_fiat else "crypto",
            "symbol": None,
            "network_confirmations": None if is_fiat else 2,
            "sort_order": 0,
            "push_payment_methods": ["bank_wire"] if is_fiat else ["crypto"],
            "group_types": ["fiat"] if is_fiat else ["crypto"],
            "display_name": None,
            "min_withdrawal_amount": None,
            "max_withdrawal_amount": None,
        },
        "default_network": "" if is_fiat else network,
        "supported_networks": []
        if is_fiat
        else [
            {
                "id": network,
                "name": name,
                "status": "online",
                "contract_address": "",
                "min_withdrawal_amount": None,
                "max_withdrawal_amount": None,
                "network_confirmations": 2,
            }
        ],
    }
