"""Finds functions of the ZeroMQ library that pyzmq uses, for the compiled path to call.

A call through pyzmq takes several times as long as what the library does for a small message.
"""

import ctypes
from importlib import import_module

import zmq


def addresses(*names: str) -> dict[str, int] | None:
    """The addresses of functions, by name; None if they cannot be found."""
    try:
        backend = import_module("zmq.backend.cython._zmq")
        if not issubclass(zmq.Socket, backend.Socket):
            return None  # another backend, which may have another library
        library = ctypes.CDLL(backend.__file__)
        found = {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names}
    except (ImportError, OSError, AttributeError):
        return None  # or the library is a part of the backend, and its names are hidden
    return {name: address for name, address in found.items() if address}
