"""Exchange clients that charge every call to a rate limit before it is sent.

Each wraps a client library, charges the endpoint's cost, waits for capacity, and synchronizes with
the exchange's own count. Results and exceptions are the client's own, unchanged.
"""

from penstock.throttled.binance import BinanceSpotThrottler
from penstock.throttled.upbit import UpbitSpotThrottler

__all__ = ["BinanceSpotThrottler", "UpbitSpotThrottler"]
