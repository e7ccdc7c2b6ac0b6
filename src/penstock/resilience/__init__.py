"""Retries after failures."""
