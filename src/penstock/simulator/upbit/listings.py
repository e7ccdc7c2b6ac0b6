"""Defines the markets of the simulated Upbit, quoted in won, bitcoin and USDT.

The tick of bitcoin is a thousand won. Volumes have eight decimals where the price has none.
"""

from penstock.simulator.market.listings import BUSY, MIDDLING, QUIET, Catalogue, Row

CATALOGUE = Catalogue(
    (
        Row("BTC", "KRW", "90000000", 8, BUSY, "2017-09-25", 997, 1000),
        Row("ETH", "KRW", "4500000", 8, BUSY, "2017-09-25", 9973, 100),
        Row("XRP", "KRW", "3000.0", 7, BUSY, "2017-09-25", 99_991),
        Row("SOL", "KRW", "220000", 8, MIDDLING, "2021-10-15", 99_991, 10),
        Row("DOGE", "KRW", "300.0", 7, MIDDLING, "2021-02-24", 999_983),
        Row("ADA", "KRW", "1000.0", 7, MIDDLING, "2017-10-23", 99_991),
        Row("USDT", "KRW", "1400.0", 7, MIDDLING, "2024-06-19", 999_983, 5),
        Row("ETH", "BTC", "0.050000", 2, QUIET, "2017-09-25"),
        Row("XRP", "BTC", "0.00003300", 0, QUIET, "2017-09-25", 7),
        Row("LINK", "KRW", "20000", 8, QUIET, "2020-01-29", 99_991, 10),
        Row("1INCH", "KRW", "400.0", 7, QUIET, "2023-11-02", 999_983),
        Row("SHIB", "KRW", "0.020000", 2, QUIET, "2021-11-12", 1_999_993),
        Row("BTC", "USDT", "60000.00", 5, QUIET, "2018-05-04"),
        Row("XRP", "USDT", "2.0000", 4, QUIET, "2018-05-04", 97),
    ),
    made_in="KRW",
)
