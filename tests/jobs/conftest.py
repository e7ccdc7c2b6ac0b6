"""Stores for jobs: every kind that a fleet may run on."""

from ..storage.state.conftest import backend, mongodb_url, postgresql_url, store, url

__all__ = ["backend", "mongodb_url", "postgresql_url", "store", "url"]
