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
    return chance.choice(_ODD)


def quantity(chance: Chance) -> str:
    return "0.00" if chance.random() < 0.25 else number(chance)


def whole(chance: Chance) -> int:
    """An id or a time, of all sizes."""
    return chance.randrange(10 ** chance.choice((1, 3, 13, 13, 14, 17, 18, 18, 19, 20)))


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
        ("depth@100ms", f'"e":"depthUpdate","E":{whole(chance)},"s":"{native}",'
         f'"U":{first},"u":{first + chance.randrange(-1, 12)},"b":{_pairs(chance, _texts)},'
         f'"a":{_pairs(chance, _texts)}'),
        ("depth20@100ms", f'"lastUpdateId":{first},"bids":{_pairs(chance, _texts)},'
         f'"asks":{_pairs(chance, _texts)}'),
        ("bookTicker", f'"u":{first},"s":"{native}","b":"{number(chance)}","B":"{number(chance)}",'
         f'"a":"{number(chance)}","A":"{number(chance)}"'),
        ("trade", f'"e":"trade","E":1,"s":"{native}","t":{whole(chance)},'
         f'"p":"{number(chance)}","q":"{number(chance)}","T":{whole(chance)},'
         f'"m":{chance.choice(("true", "false"))},"M":true'),
        ("aggTrade", f'"e":"aggTrade","E":1,"s":"{native}","a":7,"p":"{number(chance)}",'
         f'"q":"{number(chance)}","f":{first},"l":{first + chance.randrange(-1, 3)},"T":5,'
         f'"m":{chance.choice(("true", "false", "null"))},"M":true'),
        ("ticker", f'"e":"24hrTicker","E":{whole(chance)},"s":"{native}","p":"-0.5",'
         f'"P":"{number(chance)}","w":"1.5","x":"1.4","c":"{number(chance)}","Q":"10","b":"1",'
         f'"B":"{number(chance)}","a":"0.0026","A":"100","o":"{number(chance)}","h":"2","l":"1",'
         f'"v":"{number(chance)}","q":"18","O":0,"C":{first},"F":{chance.randrange(-1, 9)},'
         f'"L":18150,"n":{first}'),
        ("kline_1m", f'"e":"kline","E":1633998523963,"s":"{native}","k":{{"t":{first},'
         f'"T":{whole(chance)},"s":"{native}",'
         f'"i":"{chance.choice(("1m", "1m", "1M", "7m"))}","f":{chance.randrange(-2, 9)},'
         f'"L":{first},"o":"{number(chance)}","c":"{number(chance)}","h":"{number(chance)}",'
         f'"l":"0.3","v":"25877.00","n":30,"x":{chance.choice(("true", "false", "null"))},'
         f'"q":"{number(chance)}","V":"58.0","Q":"20.4","B":"0"}}'),
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
            f'"price":{number(chance)},"qty":{number(chance)},"ord_type":"limit","trade_id":{whole(chance)},'
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
        f'{{"type":"match","trade_id":{whole(chance)},"maker_order_id":"2a0d","taker_order_id":"3c82",'
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
        f'{{"ty":"orderbook","cd":"{native}","tms":{whole(chance)},"tas":5.5,'
        f'"tbs":{number(chance)},"obu":{_pairs(chance, unit)},"st":"REALTIME"}}',
        f'{{"ty":"trade","cd":"{native}","tms":5,"td":"2021-04-17","ttm":"16:51:02","ttms":7,'
        f'"tp":{number(chance)},"tv":{number(chance)},"ab":"{chance.choice(("BID", "ASK"))}",'
        f'"pcp":123.0,"c":"RISE","cp":4.0,"sid":{whole(chance)},"st":"REALTIME"}}',
        f'{{"ty":"ticker","cd":"{native}","tp":{number(chance)},"atv24h":1.5,"atp24h":2.5,'
        f'"tms":5,"st":"SNAPSHOT"}}',
    ))  # fmt: skip


MAKERS: dict[str, Callable[[Chance], str]] = {
    "binance": binance, "kraken": kraken, "coinbase": coinbase, "upbit": upbit,
}  # fmt: skip


def spoiled(frame: str, other: str, chance: Chance) -> Frame:
    """A frame as it should not be, perhaps with a part of another one."""
    place, end = chance.randrange(len(frame) + 1), chance.randrange(len(frame) + 1)
    before, after, character = frame[:place], frame[place:], chance.choice(_CHARACTERS)
    digit = chance.choice("0123456789") * chance.choice((1, 1, 18, 60))
    ways: tuple[Callable[[], Frame], ...] = (
        lambda: before,
        lambda: frame + frame,
        lambda: before + after[1:],
        *[lambda: before + character + after] * 3,
        *[lambda: before + digit + after] * 2,
        lambda: before + "[" * 1000 + "]" * 1000 + after,
        lambda: _bytes(before) + bytes([chance.randrange(256)]) + _bytes(after),
        lambda: before + chr(0xD800 + chance.randrange(0x800)) + after,
        lambda: frame.replace(",", ", ", chance.randrange(1, 4)),
        lambda: before + frame[end:],
        lambda: before + frame[min(place, end) : place] * chance.choice((1, 2, 300)) + after,
        lambda: before + other[chance.randrange(len(other)) :],
        lambda: before + other + after,
        lambda: frame.replace('"', "\\u0022", 1),
    )
    found = chance.choice(ways)()
    if isinstance(found, str) and found and chance.random() < 0.2:
        return spoiled(found, other, chance)
    if isinstance(found, bytes) or chance.random() < 0.3:
        return found
    return _bytes(found)


def _bytes(text: str) -> bytes:
    """Also of lone surrogates, as no UTF-8 has them."""
    return text.encode(errors="surrogatepass")


def some_frame(exchange: str, chance: Chance) -> Frame:
    """A frame, usually as it should be."""
    # Else a book would soon meet a number that it hands over to the Python code with all the rest.
    chance.odd = chance.random() < 0.1
    frame = MAKERS[exchange](chance)
    if chance.random() < 0.3:
        return spoiled(frame, MAKERS[exchange](chance), chance)
    return frame if chance.random() < 0.3 else frame.encode()
