"""The simulated market: trades, candles and books as pure functions of a seed.

Arithmetic only: this package uses no clients, sockets, event loop or exchange protocol.
"""
