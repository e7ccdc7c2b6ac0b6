"""Resilience: what to do when something did not work."""
