"""A store of each kind, for what documents are read from."""

from ..storage.state.conftest import backend, store, url

__all__ = ["backend", "store", "url"]
