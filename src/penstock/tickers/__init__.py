"""Collects the latest tick of every symbol, shared by any number of daemons.

daemon = TickerDaemon()
await daemon.start()
await daemon.process_ticker(TickerSymbol.of("sim", "BTC/USDT"))
await daemon.stop()
"""

from penstock.tickers.credentials import CredentialProvider
from penstock.tickers.daemon import TickerDaemon
from penstock.tickers.live_collector import LiveTickerCollector
from penstock.tickers.model import TickerSymbol
from penstock.tickers.symbols import TickerSymbols

__all__ = [
    "CredentialProvider",
    "LiveTickerCollector",
    "TickerDaemon",
    "TickerSymbol",
    "TickerSymbols",
]
