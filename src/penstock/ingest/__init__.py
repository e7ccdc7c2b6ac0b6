"""Ingestion of history: job handlers, checks for gaps, and plans."""
