"""Serves any simulated exchange.

The engine contains the server and its connections, admission and limits, faults, the control API
under ``/_sim/`` and the ledger. ``exchange.py`` is the port that each exchange's folder implements.
"""
