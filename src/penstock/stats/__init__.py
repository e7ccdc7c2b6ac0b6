"""Turns facts and state into metrics."""
