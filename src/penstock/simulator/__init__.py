"""Exchanges to practise on: deterministic, exact, and as strict as the real ones.

The market is a pure function of a seed: every trade of its id, every book of its update id, every
candle the sum of its trades. Each exchange's folder spells that market in its own protocol and
counts its own limits. All of it is written from the exchanges' documentation alone and shares no
protocol code with penstock's own clients, so that one misreading cannot prove itself right.
"""
