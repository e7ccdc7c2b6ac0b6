"""The simulated market: trades, candles and books as pure functions of a seed.

Arithmetic alone: nothing here knows of clients, sockets or the loop, or of any exchange's protocol.
"""
