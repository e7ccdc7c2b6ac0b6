"""A store of each kind, for what coverage keeps there."""

from ..storage.state.conftest import backend, store, url

__all__ = ["backend", "store", "url"]
