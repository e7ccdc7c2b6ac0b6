"""Throttled exchanges: clients whose every call is paid for before it leaves.

Each wraps a client library, charges what the endpoint costs, waits where there is no room, and
keeps in step with what the exchange counts. Results and failures are the client's own, unchanged.
"""

from penstock.throttled.binance import BinanceSpotThrottler
from penstock.throttled.upbit import UpbitSpotThrottler

__all__ = ["BinanceSpotThrottler", "UpbitSpotThrottler"]
