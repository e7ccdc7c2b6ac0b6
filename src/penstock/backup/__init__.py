"""Backups of a data folder: archives, their checks, retention and remote copies."""
