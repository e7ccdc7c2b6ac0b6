"""Binance spot, throttled."""

from penstock.throttled.binance.throttler import BinanceSpotThrottler

__all__ = ["BinanceSpotThrottler"]
