"""Exchanges: one folder each, and the one way out to all of them."""
