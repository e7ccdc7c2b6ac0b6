"""Collected data as frames: the log and the lake as one, each record once, gaps reported."""
