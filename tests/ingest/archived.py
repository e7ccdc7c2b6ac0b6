"""Published files made for tests, and a series of Binance's trades."""

import zipfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from penstock.exchanges.binance.files import FILES
from penstock.exchanges.bulk_files import BulkFile, FileSpan
from penstock.market.interval import DAY_MS
from penstock.market.symbol import Symbol

BTC = Symbol.parse("btc_usdt")
SERIES = FILES.trades("BTCUSDT", BTC)
assert SERIES is not None
DAY = FileSpan("daily", 1_704_067_200_000, 1_704_067_200_000 + DAY_MS)
"""2024-01-01"""
FILE: BulkFile = SERIES.file(DAY)


def row(number: int, at: int = DAY.since_ms, price: str = "17.80180000") -> str:
    return f"{number},{price},5.69000000,101.29224200,{at},True,True"


def zipped(text: str | bytes, member: str = FILE.member, method: int = 8) -> bytes:
    target = BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        archive.writestr(member, text)
    return target.getvalue()


def checksum(data: bytes, name: str = FILE.name) -> bytes:
    return f"{sha256(data).hexdigest()}  {name}\n".encode()


def put(folder: Path, data: bytes, file: BulkFile = FILE) -> None:
    """Write a file and its checksum, in the exchange's own folders."""
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.with_name(f"{path.name}.CHECKSUM").write_bytes(checksum(data, file.name))
