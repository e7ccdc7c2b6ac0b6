"""Market data types: symbols, intervals, events, price levels, and their encoding."""
