"""How Binance usually spells the frames that come most often; see ``payloads``."""

from penstock.exchanges.layouts import Layout
from penstock.market.events import AggTrade, BookDelta, BookSnapshot, Ticker, Trade

LAYOUTS = {
    "trades": Layout(
        Trade,
        '{"stream":"<stream>","data":{"e":"trade","E":<:whole>,"s":"<native>","t":<id:whole>,'
        '"p":"<price_text:number>","q":"<quantity_text:number>","T":<at_ns:ms>,'
        '"m":<taker:true=sell|false=buy>,"M":<:true=|false=>}}',
    ),
    "agg_trades": Layout(
        AggTrade,
        '{"stream":"<stream>","data":{"e":"aggTrade","E":<:whole>,"s":"<native>","a":<id:whole>,'
        '"p":"<price_text:number>","q":"<quantity_text:number>","f":<first_trade_id:whole>,'
        '"l":<last_trade_id:after>,"T":<at_ns:ms>,"m":<taker:true=sell|false=buy>,'
        '"M":<:true=|false=>}}',
    ),
    "book_deltas": Layout(
        BookDelta,
        '{"stream":"<stream>","data":{"e":"depthUpdate","E":<at_ns:ms>,"s":"<native>",'
        '"U":<first_update_id:whole>,"u":<final_update_id:after>,"b":<bids_raw:levels>,'
        '"a":<asks_raw:levels>}}',
    ),
    "book_snapshots": Layout(
        BookSnapshot,
        '{"stream":"<stream>","data":{"lastUpdateId":<update_id:whole>,"bids":<bids_raw:levels>,'
        '"asks":<asks_raw:levels>}}',
    ),
    "tickers": Layout(
        Ticker,
        '{"stream":"<stream>","data":{"u":<update_id:whole>,"s":"<native>","b":"<bid_text:number>",'
        '"B":"<bid_quantity_text:number>","a":"<ask_text:number>",'
        '"A":"<ask_quantity_text:number>"}}',
    ),
}
