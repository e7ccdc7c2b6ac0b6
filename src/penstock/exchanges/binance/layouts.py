"""How Binance usually spells the frames that come most often; see ``payloads``."""

from penstock.exchanges.layouts import Layout
from penstock.market.events import (
    AggTrade,
    BookDelta,
    BookSnapshot,
    Candle,
    Ticker,
    Ticker24h,
    Trade,
)
from penstock.market.interval import COMMON

_INTERVALS = "|".join(f"{text}={text}" for text in COMMON)
_CANDLES = Layout(
    Candle,
    '{"e":"kline","E":<:whole>,"s":"<native>","k":{"t":<open_ms:whole>,"T":<close_ms:whole>,'
    f'"s":"<native>","i":"<interval:{_INTERVALS}>","f":<first_trade_id:whole>,'
    '"L":<last_trade_id:whole>,"o":"<open_text:number>","c":"<close_text:number>",'
    '"h":"<high_text:number>","l":"<low_text:number>","v":"<volume_text:number>",'
    '"n":<trades:whole>,"x":<closed:true=yes|false=no>,"q":"<quote_volume_text:number>",'
    '"V":"<taker_buy_volume_text:number>","Q":"<taker_buy_quote_volume_text:number>",'
    '"B":"<:text>"}}',
)
LAYOUTS = {
    "trades": Layout(
        Trade,
        '{"e":"trade","E":<:whole>,"s":"<native>","t":<id:whole>,"p":"<price_text:number>",'
        '"q":"<quantity_text:number>","T":<at_ns:ms>,"m":<taker:true=sell|false=buy>,'
        '"M":<:true=|false=>}',
    ),
    "agg_trades": Layout(
        AggTrade,
        '{"e":"aggTrade","E":<:whole>,"s":"<native>","a":<id:whole>,"p":"<price_text:number>",'
        '"q":"<quantity_text:number>","f":<first_trade_id:whole>,"l":<last_trade_id:after>,'
        '"T":<at_ns:ms>,"m":<taker:true=sell|false=buy>,"M":<:true=|false=>}',
    ),
    "book_deltas": Layout(
        BookDelta,
        '{"e":"depthUpdate","E":<at_ns:ms>,"s":"<native>","U":<first_update_id:whole>,'
        '"u":<final_update_id:after>,"b":<bids_raw:levels>,"a":<asks_raw:levels>}',
    ),
    "book_snapshots": Layout(
        BookSnapshot,
        '{"lastUpdateId":<update_id:whole>,"bids":<bids_raw:levels>,"asks":<asks_raw:levels>}',
    ),
    "tickers": Layout(
        Ticker,
        '{"u":<update_id:whole>,"s":"<native>","b":"<bid_text:number>",'
        '"B":"<bid_quantity_text:number>","a":"<ask_text:number>",'
        '"A":"<ask_quantity_text:number>"}',
    ),
    "tickers_24h": Layout(
        Ticker24h,
        '{"e":"24hrTicker","E":<at_ns:ms>,"s":"<native>","p":"<:text>","P":"<:text>",'
        '"w":"<:text>","x":"<:text>","c":"<last_text:number>","Q":"<:text>",'
        '"b":"<bid_text:number>","B":"<bid_quantity_text:number>","a":"<ask_text:number>",'
        '"A":"<ask_quantity_text:number>","o":"<open_text:number>","h":"<high_text:number>",'
        '"l":"<low_text:number>","v":"<volume_text:number>","q":"<quote_volume_text:number>",'
        '"O":<:whole>,"C":<:whole>,"F":<:whole>,"L":<:whole>,"n":<:whole>}',
    ),
    **{f"candles_{text}": _CANDLES for text in COMMON},
}
