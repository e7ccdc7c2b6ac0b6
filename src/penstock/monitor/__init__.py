"""Reads what a fleet wrote, as the documents that the console and ``penstock top`` show."""
