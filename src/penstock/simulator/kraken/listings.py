"""Defines the markets of the simulated Kraken, modelled on real ones, mostly in dollars and euros.

They have old assets with prefixed ids and new ones without, assets whose name begins with the
letter of a prefix, a base that is a fiat currency, one that begins with a digit, and a price far
below a cent.
"""

from penstock.simulator.market.listings import BUSIEST, BUSY, MIDDLING, QUIET, Catalogue, Row

CATALOGUE = Catalogue(
    (
        Row("BTC", "USD", "60000.0", 5, BUSIEST, "2013-10-06"),
        Row("ETH", "USD", "3000.00", 4, BUSY, "2015-08-07"),
        Row("SOL", "USD", "150.000", 4, BUSY, "2021-06-17"),
        Row("XRP", "USD", "0.50000", 3, BUSY, "2017-05-18"),
        Row("BTC", "EUR", "55000.0", 5, MIDDLING, "2013-09-10"),
        Row("ETH", "EUR", "2750.00", 4, MIDDLING, "2015-08-07"),
        Row("ETH", "BTC", "0.050000", 2, MIDDLING, "2015-08-07"),
        Row("BTC", "USDT", "60000.0", 5, MIDDLING, "2019-12-19"),
        Row("DOGE", "USD", "0.1200000", 1, MIDDLING, "2021-02-02"),
        Row("ADA", "USD", "0.450000", 2, MIDDLING, "2018-09-28"),
        Row("LTC", "USD", "80.000", 4, MIDDLING, "2013-10-24"),
        Row("XRP", "EUR", "0.45000", 3, QUIET, "2017-05-18"),
        Row("XLM", "USD", "0.300000", 2, QUIET, "2017-11-30"),
        Row("XMR", "USD", "150.000", 4, QUIET, "2017-01-05"),
        Row("ZEC", "USD", "30.000", 4, QUIET, "2016-10-29"),
        Row("XTZ", "USD", "1.0000", 4, QUIET, "2018-07-31"),
        Row("ZRX", "USD", "0.40000", 3, QUIET, "2021-05-20"),
        Row("DOT", "USD", "7.0000", 4, QUIET, "2020-08-18"),
        Row("LINK", "USD", "14.00000", 3, QUIET, "2019-09-12"),
        Row("USDT", "USD", "1.00000", 3, QUIET, "2017-04-20"),
        Row("EUR", "USD", "1.08000", 3, QUIET, "2019-12-10"),
        Row("1INCH", "USD", "0.40000", 3, QUIET, "2021-08-26"),
        Row("SHIB", "USD", "0.00001800", 0, QUIET, "2021-11-30", 20_000),
    ),
    made_in="USD",
)
