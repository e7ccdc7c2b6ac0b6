"""Exchanges to practise on: deterministic, exact, and as strict as the real ones.

The market is a pure function of a seed: every trade of its id, every book of its update id, every
candle the sum of its trades (``market``). The engine serves any exchange: admission, streams,
faults, the ledger (``engine``). Each exchange's folder spells the market in its own protocol and
states its own limits; ``registry`` finds the folders. ``judge`` compares what a client recorded
with the ledger, over HTTP.

All of it is written from the exchanges' documentation alone and shares no protocol code with
penstock's own clients, so that one misreading cannot prove itself right.
"""
