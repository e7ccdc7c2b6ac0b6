"""Connectors: one budget per exchange for the whole fleet."""
