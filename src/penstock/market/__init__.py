"""Market data types: symbols, intervals, events, order books, and their encoding."""
