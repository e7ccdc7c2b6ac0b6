"""Frames as exchanges send them, from a seed, and ways to spoil them."""

import random
from collections.abc import Callable

from tests.compiled.both import NATIVES

Frame = bytes | str
_ODD = ("", ".", "1.", ".5", "-1", "1e5", "NaN", "007.5", "1.10", "1.1", "1" * 70)
_CHARACTERS = '"\\,[]{}.09- \0é'


class Chance(random.Random):
    """Chance, and whether the frame that is being made has unusual numbers."""

    odd = True


def number(chance: Chance) -> str:
    """A plain number, mostly of the usual kind."""
    kind = chance.random()
    if kind < 0.7 or not chance.odd:
        return f"{chance.choice((9, 10, 11, 12))}.{chance.randrange(10)}"
    if kind < 0.8:
        return f"{chance.randrange(20)}.{chance.randrange(10**8):08}"
    if kind < 0.85:
        return "0." + "0" * chance.randrange(1, 12)
    if kind < 0.9:
        return str(chance.randrange(20))
    if kind < 0.93:
        return f"{10 ** chance.randrange(15, 40)}.{chance.randrange(10**6)}"
    if kind < 0.96:
        return f"{chance.randrange(20)}.{chance.randrange(10 ** chance.randrange(9, 60))}"
    return chance.choice(
        ("", ".", "1.", ".5", "-1", "1e5", "NaN", "007.5", "1.10", "1.1", "1" * 70)
    )


def quantity(chance: Chance) -> str:
    return "0.00" if chance.random() < 0.25 else number(chance)


def _pairs(chance: Chance, spell: Callable[[str, str], str]) -> str:
    count = chance.choice((0, 1, 1, 2, 3, 8, 80))
    return "[" + ",".join(spell(number(chance), quantity(chance)) for _ in range(count)) + "]"


def _texts(price: str, size: str) -> str:
    return f'["{price}","{size}"]'


def _at(chance: Chance) -> str:
    if not chance.odd:
        return f"2023-09-25T07:49:37.{chance.randrange(10**6):06}Z"
    digits = chance.choice((1, 3, 6, 6, 6, 9, 10))
    day = chance.choice(("2023-09-25", "2024-02-29", "2023-02-29", "1970-01-01", "2262-01-01"))
    clock = chance.choice(("07:49:37", "23:59:59", "24:00:00", "12:60:00"))
    return f"{day}T{clock}.{chance.randrange(10**digits):0{digits}}{chance.choice('ZZZZz')}"


def binance(chance: Chance) -> str:
    native = chance.choice((*NATIVES["binance"], "XRPUSD"))
    first = chance.randrange(30)
    kind, data = chance.choice((
        ("depth@100ms", f'"e":"depthUpdate","E":{chance.randrange(10**13)},"s":"{native}",'
         f'"U":{first},"u":{first + chance.randrange(-1, 12)},"b":{_pairs(chance, _texts)},'
         f'"a":{_pairs(chance, _texts)}'),
        ("depth20@100ms", f'"lastUpdateId":{first},"bids":{_pairs(chance, _texts)},'
         f'"asks":{_pairs(chance, _texts)}'),
        ("bookTicker", f'"u":{first},"s":"{native}","b":"{number(chance)}","B":"{number(chance)}",'
         f'"a":"{number(chance)}","A":"{number(chance)}"'),
        ("trade", f'"e":"trade","E":1,"s":"{native}","t":{chance.randrange(10**20)},'
         f'"p":"{number(chance)}","q":"{number(chance)}","T":{chance.randrange(10**14)},'
         f'"m":{chance.choice(("true", "false"))},"M":true'),
        ("aggTrade", f'"e":"aggTrade","E":1,"s":"{native}","a":7,"p":"{number(chance)}",'
         f'"q":"{number(chance)}","f":{first},"l":{first + chance.randrange(-1, 3)},"T":5,'
         f'"m":{chance.choice(("true", "false", "null"))},"M":true'),
    ))  # fmt: skip
    return f'{{"stream":"{native.lower()}@{kind}","data":{{{data}}}}}'


def kraken(chance: Chance) -> str:
    native = chance.choice((*NATIVES["kraken"], "XRP/USD"))

    def level(price: str, size: str) -> str:
        return f'{{"price":{price},"qty":{size}}}'

    def rows(row: Callable[[], str]) -> str:
        return ",".join(row() for _ in range(chance.choice((1, 1, 1, 2, 3))))

    def book() -> str:
        return (
            f'{{"symbol":"{native}","bids":{_pairs(chance, level)},'
            f'"asks":{_pairs(chance, level)},"checksum":{chance.randrange(10**10)},'
            f'"timestamp":"{_at(chance)}"}}'
        )

    def trade() -> str:
        return (
            f'{{"symbol":"{native}","side":"{chance.choice(("buy", "sell"))}",'
            f'"price":{number(chance)},"qty":{number(chance)},"ord_type":"limit","trade_id":5,'
            f'"timestamp":"{_at(chance)}"}}'
        )

    def ticker() -> str:
        return (
            f'{{"symbol":"{native}","bid":{number(chance)},"bid_qty":1.5,"ask":2.5,'
            f'"ask_qty":{number(chance)},"last":{number(chance)},"volume":5.0,"vwap":1.5,"low":1.5,'
            f'"high":9.5,"change":-0.1,"change_pct":{chance.choice(("-0.17", "0.1", "1e-05"))},'
            f'"timestamp":"{_at(chance)}"}}'
        )

    kind, row = chance.choice((("book", book), ("trade", trade), ("ticker", ticker)))
    how = chance.choice(("update", "update", "update", "snapshot"))
    if chance.random() < 0.05:
        return '{"channel":"heartbeat"}'
    return f'{{"channel":"{kind}","type":"{how}","data":[{rows(row)}]}}'


def coinbase(chance: Chance) -> str:
    native, side = chance.choice((*NATIVES["coinbase"], "XRP-USD")), ("buy", "sell")

    def change(price: str, size: str) -> str:
        return f'["{chance.choice(side)}","{price}","{size}"]'

    return chance.choice((
        f'{{"type":"l2update","product_id":"{native}","changes":{_pairs(chance, change)},'
        f'"time":"{_at(chance)}"}}',
        f'{{"type":"snapshot","product_id":"{native}","asks":{_pairs(chance, _texts)},'
        f'"bids":{_pairs(chance, _texts)}}}',
        f'{{"type":"match","trade_id":280232,"maker_order_id":"2a0d-é","taker_order_id":"3c82",'
        f'"side":"{chance.choice(side)}","size":"{number(chance)}","price":"{number(chance)}",'
        f'"product_id":"{native}","sequence":177100030,"time":"{_at(chance)}"}}',
        f'{{"type":"match","trade_id":280232,"maker_order_id":"2a0d","taker_order_id":"3c82",'
        f'"side":"{chance.choice(side)}","size":"{number(chance)}","price":"{number(chance)}",'
        f'"product_id":"{native}","sequence":177100030,"time":"{_at(chance)}"}}',
        f'{{"type":"ticker","sequence":333,"product_id":"{native}","price":"{number(chance)}",'
        f'"open_24h":"14.6647","volume_24h":"94381.28","low_24h":"14.3691","high_24h":"16.55",'
        f'"volume_30d":"2295579.57","best_bid":"{number(chance)}","best_ask":"14.8060",'
        f'"side":"buy","time":"{_at(chance)}","trade_id":881613,"last_size":"0.04"}}',
    ))  # fmt: skip


def upbit(chance: Chance) -> str:
    native = chance.choice((*NATIVES["upbit"], "KRW-XRP"))

    def unit(price: str, size: str) -> str:
        return f'{{"ap":{number(chance)},"bp":{price},"as":{quantity(chance)},"bs":{size}}}'

    return chance.choice((
        f'{{"ty":"orderbook","cd":"{native}","tms":{chance.randrange(10**13)},"tas":5.5,'
        f'"tbs":{number(chance)},"obu":{_pairs(chance, unit)},"st":"REALTIME"}}',
        f'{{"ty":"trade","cd":"{native}","tms":5,"td":"2021-04-17","ttm":"16:51:02","ttms":7,'
        f'"tp":{number(chance)},"tv":{number(chance)},"ab":"{chance.choice(("BID", "ASK"))}",'
        f'"pcp":123.0,"c":"RISE","cp":4.0,"sid":1618678262000003,"st":"REALTIME"}}',
        f'{{"ty":"ticker","cd":"{native}","tp":{number(chance)},"atv24h":1.5,"atp24h":2.5,'
        f'"tms":5,"st":"SNAPSHOT"}}',
    ))  # fmt: skip


MAKERS: dict[str, Callable[[Chance], str]] = {
    "binance": binance, "kraken": kraken, "coinbase": coinbase, "upbit": upbit,
}  # fmt: skip


def spoiled(frame: str, chance: Chance) -> Frame:
    """A frame as it should not be."""
    place = chance.randrange(len(frame) + 1)
    character = chance.choice(_CHARACTERS)
    kind = chance.randrange(12)
    if kind == 0:
        return frame[:place].encode()
    if kind == 1:
        return (frame + frame).encode()
    if kind == 2:
        return (frame[:place] + frame[place + 1 :]).encode()
    if kind <= 5:
        return (frame[:place] + character + frame[place:]).encode()
    if kind == 6:
        return (frame[:place] + "[" * 1000 + "]" * 1000 + frame[place:]).encode()
    if kind == 7:
        return frame[:place].encode() + bytes([chance.randrange(256)]) + frame[place:].encode()
    if kind == 8:
        return frame[:place] + chr(0xD800 + chance.randrange(0x800)) + frame[place:]
    if kind == 9:
        return frame.replace(",", ", ", chance.randrange(1, 4)).encode()
    if kind == 10:
        other = chance.randrange(len(frame) + 1)
        return (frame[:place] + frame[other:]).encode()
    return frame.replace('"', "\\u0022", 1).encode()


def some_frame(exchange: str, chance: Chance) -> Frame:
    """A frame, usually as it should be."""
    # Else a book would soon meet a number that it hands over to the Python code with all the rest.
    chance.odd = chance.random() < 0.1
    frame = MAKERS[exchange](chance)
    if chance.random() < 0.3:
        return spoiled(frame, chance)
    return frame if chance.random() < 0.3 else frame.encode()
