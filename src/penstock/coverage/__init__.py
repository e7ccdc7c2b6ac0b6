"""Which records of a market the log holds, and which are missing: trades by id, candles by time."""
