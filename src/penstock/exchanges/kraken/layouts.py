"""How Kraken usually spells the frames that come most often; see ``payloads``."""

from penstock.exchanges.layouts import Layout
from penstock.market.events import BookDelta, Ticker, Trade

LAYOUTS = {
    "book": Layout(
        BookDelta,
        '{"symbol":"<symbol>","bids":<bids_raw:levels>,"asks":<asks_raw:levels>,'
        '"checksum":<checksum:word32>,"timestamp":"<at_ns:time>"}',
        around='{"channel":"book","type":"update","data":[<rows>]}',
        unit='{"price":<price:bare>,"qty":<quantity:bare>}',
    ),
    "ticker": Layout(
        Ticker,
        '{"symbol":"<symbol>","bid":<bid_text:bare>,"bid_qty":<bid_quantity_text:bare>,'
        '"ask":<ask_text:bare>,"ask_qty":<ask_quantity_text:bare>,"last":<last_text:bare>,'
        '"volume":<volume_text:bare>,"vwap":<:bare>,"low":<low_text:bare>,"high":<high_text:bare>,'
        '"change":<:signed>,"change_pct":<:signed>,"timestamp":"<at_ns:time>"}',
        around='{"channel":"ticker","type":"update","data":[<rows>]}',
    ),
    "trade": Layout(
        Trade,
        '{"symbol":"<symbol>","side":"<taker:buy=buy|sell=sell>","price":<price_text:bare>,'
        '"qty":<quantity_text:bare>,"ord_type":"<:text>","trade_id":<id:whole>,'
        '"timestamp":"<at_ns:time>"}',
        around='{"channel":"trade","type":"update","data":[<rows>]}',
    ),
    "heartbeat": Layout(None, '{"channel":"heartbeat"}'),
}
"""By kind of stream."""
