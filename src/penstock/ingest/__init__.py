"""Ingestion of history: kinds of jobs, checks for gaps, and plans."""
