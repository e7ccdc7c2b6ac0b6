"""Defines the markets of the simulated Binance, modelled on real ones.

They have several quote currencies, a base that starts with a digit, one that is not ASCII, and
prices far below a cent. Some are busy, most are quiet; they were listed on different days.
"""

from penstock.simulator.market.listings import BUSIEST, BUSY, MIDDLING, QUIET, Catalogue, Row

CATALOGUE = Catalogue(
    (
        Row("BTC", "USDT", "60000.00", 5, BUSIEST, "2017-08-17"),
        Row("ETH", "USDT", "3000.00", 4, BUSIEST, "2017-08-17"),
        Row("BNB", "USDT", "600.000", 3, BUSIEST, "2017-11-06"),
        Row("SOL", "USDT", "150.000", 3, BUSY, "2020-08-11"),
        Row("XRP", "USDT", "0.500000", 1, BUSY, "2018-05-04"),
        Row("ADA", "USDT", "0.450000", 1, MIDDLING, "2018-04-17"),
        Row("DOGE", "USDT", "0.120000", 0, MIDDLING, "2019-07-05"),
        Row("LTC", "USDT", "80.0000", 3, MIDDLING, "2017-12-13"),
        Row("ETH", "BTC", "0.050000", 2, MIDDLING, "2017-08-17"),
        Row("BTC", "EUR", "55000.00", 5, MIDDLING, "2020-01-03"),
        Row("ETH", "EUR", "2750.00", 4, MIDDLING, "2020-01-03"),
        Row("BTC", "FDUSD", "60000.00", 5, MIDDLING, "2023-08-04"),
        Row("ETH", "FDUSD", "3000.00", 4, MIDDLING, "2023-08-04"),
        Row("BNB", "BTC", "0.010000", 2, QUIET, "2017-08-17"),
        Row("LTC", "BTC", "0.001350", 2, QUIET, "2017-08-17"),
        Row("LINK", "ETH", "0.005000", 2, QUIET, "2017-09-16"),
        Row("BNB", "ETH", "0.200000", 2, QUIET, "2017-08-17"),
        Row("XRP", "EUR", "0.450000", 1, QUIET, "2020-01-07"),
        Row("1INCH", "USDT", "0.40000", 1, QUIET, "2020-12-25"),
        Row("LINK", "USDT", "14.0000", 2, QUIET, "2019-01-16"),
        Row("NKN", "USDT", "0.080000", 0, QUIET, "2020-05-26"),
        Row("SHIB", "USDT", "0.00001800", 0, QUIET, "2021-05-10", 20_000),
        Row("SOL", "FDUSD", "150.000", 3, QUIET, "2023-09-13"),
        Row("DENT", "USDT", "0.00090000", 0, QUIET, "2024-05-29", 500),
        Row("币安人生", "USDT", "0.15000", 1, QUIET, "2024-10-07"),
    ),
    made_in="USDT",
)
