"""Upbit spot, throttled."""

from penstock.throttled.upbit.throttler import UpbitSpotThrottler

__all__ = ["UpbitSpotThrottler"]
