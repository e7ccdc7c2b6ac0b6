"""Defines the markets of the simulated Coinbase, quoted in dollars, euros, pounds and coins."""

from penstock.simulator.market.listings import BUSY, MIDDLING, QUIET, Catalogue, Row

CATALOGUE = Catalogue(
    (
        Row("BTC", "USD", "60000.00", 6, BUSY, "2015-07-20"),
        Row("ETH", "USD", "3000.00", 6, BUSY, "2016-05-18"),
        Row("SOL", "USD", "150.000", 5, MIDDLING, "2021-06-17"),
        Row("XRP", "USD", "0.500000", 2, MIDDLING, "2019-02-28"),
        Row("LTC", "USD", "80.000", 4, MIDDLING, "2016-08-17"),
        Row("ADA", "USD", "0.45000", 2, MIDDLING, "2021-03-18"),
        Row("DOGE", "USD", "0.12000", 1, MIDDLING, "2021-06-03"),
        Row("BTC", "USDT", "60000.00", 6, MIDDLING, "2021-05-04"),
        Row("BTC", "EUR", "55000.00", 6, MIDDLING, "2015-04-23"),
        Row("ETH", "BTC", "0.050000", 2, MIDDLING, "2016-05-18"),
        Row("BTC", "GBP", "47000.00", 6, QUIET, "2015-04-28"),
        Row("ETH", "EUR", "2750.00", 6, QUIET, "2017-05-23"),
        Row("LINK", "USD", "14.0000", 2, QUIET, "2019-06-27"),
        Row("1INCH", "USD", "0.4000", 2, QUIET, "2021-04-09"),
        Row("SHIB", "USD", "0.00001800", 0, QUIET, "2021-09-09", 20_000),
    ),
    made_in="USD",
)
