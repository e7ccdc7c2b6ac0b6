"""Simulated exchanges for tests: deterministic, exact, and as strict as the real ones.

The market (``market``) is a pure function of a seed: a trade of its id, a book of its update id; a
candle is the sum of its trades. The engine (``engine``) serves any exchange: admission, streams,
faults, the ledger. Each exchange's folder encodes the market in that exchange's protocol and
defines its limits; ``registry`` finds the folders. ``judge`` compares what a client recorded with
the ledger, over HTTP.

The simulator is written from the exchanges' documentation alone and shares no protocol code with
penstock's clients, so that a misread document does not confirm itself.
"""
