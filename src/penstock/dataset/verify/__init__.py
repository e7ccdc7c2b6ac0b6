"""Checks collected data against itself: ids, broadcast numbers, candles and order books."""
