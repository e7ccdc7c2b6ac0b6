"""How Upbit usually spells the frames that come most often; see ``payloads``."""

from penstock.exchanges.layouts import Layout
from penstock.market.events import BookSnapshot, Trade

LAYOUTS = {
    "orderbook": Layout(
        BookSnapshot,
        '{"ty":"orderbook","cd":"<symbol>","tms":<at_ns:ms>,"tas":<:bare>,"tbs":<:bare>,'
        '"obu":<sides:units>,"st":"<:text>"}',
        unit='{"ap":<ask:bare>,"bp":<price:bare>,"as":<ask_quantity:bare>,"bs":<quantity:bare>}',
    ),
    "trade": Layout(
        Trade,
        '{"ty":"trade","cd":"<symbol>","tms":<:whole>,"td":"<:text>","ttm":"<:text>",'
        '"ttms":<at_ns:ms>,"tp":<price_text:bare>,"tv":<quantity_text:bare>,'
        '"ab":"<taker:BID=buy|ASK=sell>","pcp":<:bare>,"c":"<:text>","cp":<:bare>,'
        '"sid":<id:whole>,"st":"<:text>"}',
    ),
}
"""By kind of stream."""
