"""Ingestion: the kinds of jobs that bring history in."""
