"""The vocabulary of markets: symbols, intervals, events, books, and how they are written down."""
