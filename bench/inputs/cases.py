"""The cases of the decode benchmark, the same for every side."""

CASES = {
    "binance_mix": ("binance", ""),
    "binance_book": ("binance", "@depth"),
    "binance_trades": ("binance", "@aggTrade"),
    "binance_ticker": ("binance", "@bookTicker"),
    "kraken_mix_crc": ("kraken", ""),
    "coinbase_mix": ("coinbase", ""),
    "upbit_mix": ("upbit", ""),
}
"""Of which exchange, and of which of its streams; of all, if none is named."""
