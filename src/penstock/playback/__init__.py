"""Replays records in one order: merges streams, keeps the time between them, computes a digest."""
