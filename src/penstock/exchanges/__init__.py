"""Exchanges: one folder each, and the one client that sends requests to all of them."""
