"""The engine: what serves any simulated exchange.

The server and its connections, admission and limits, faults, control under ``/_sim/`` and the
ledger. ``exchange.py`` is the port that each exchange's folder implements.
"""
