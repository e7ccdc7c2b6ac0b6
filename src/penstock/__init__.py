"""penstock: crypto market data, complete, provably gap-free, within every rate limit."""

__version__ = "0.1.0"
