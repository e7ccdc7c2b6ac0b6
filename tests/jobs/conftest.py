"""Stores for jobs: every kind that a fleet may run on."""

from ..storage.state.conftest import backend, store, url

__all__ = ["backend", "store", "url"]
