"""How Coinbase usually spells the frames that come most often; see ``payloads``."""

from penstock.exchanges.layouts import Layout
from penstock.market.events import BookDelta, Ticker, Trade

_TICKER = (
    '{"type":"ticker","sequence":<update_id:whole>,"product_id":"<symbol>",'
    '"price":"<last_text:number>","open_24h":"<open_text:number>",'
    '"volume_24h":"<volume_text:number>","low_24h":"<low_text:number>",'
    '"high_24h":"<high_text:number>","volume_30d":"<:number>",'
)
_TICKER_END = '"side":"<:text>","time":"<at_ns:time>","trade_id":<:whole>,"last_size":"<:number>"}'
LAYOUTS = (
    (
        "level2_batch",
        Layout(
            BookDelta,
            '{"type":"l2update","product_id":"<symbol>","changes":<sides:changes>,'
            '"time":"<at_ns:time>"}',
            unit='["<side:buy=bids|sell=asks>","<price:number>","<quantity:number>"]',
        ),
    ),
    (
        "matches",
        Layout(
            Trade,
            '{"type":"match","trade_id":<id:whole>,"maker_order_id":"<:text>",'
            '"taker_order_id":"<:text>","side":"<taker:buy=sell|sell=buy>",'
            '"size":"<quantity_text:number>","price":"<price_text:number>",'
            '"product_id":"<symbol>","sequence":<:whole>,"time":"<at_ns:time>"}',
        ),
    ),
    (
        "ticker",
        Layout(
            Ticker,
            f'{_TICKER}"best_bid":"<bid_text:number>","best_bid_size":"<bid_quantity_text:number>",'
            '"best_ask":"<ask_text:number>","best_ask_size":"<ask_quantity_text:number>",'
            + _TICKER_END,
        ),
    ),
    (
        "ticker",
        Layout(
            Ticker,
            f'{_TICKER}"best_bid":"<bid_text:number>","best_ask":"<ask_text:number>",{_TICKER_END}',
        ),
    ),
)
"""Each with the channel whose symbols it has."""
