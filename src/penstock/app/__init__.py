"""Builds each kind of process from settings, one module each (the composition root)."""
