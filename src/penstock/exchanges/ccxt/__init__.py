"""Any exchange that ccxt knows, named ``ccxt:NAME``, behind the same gate as every other.

https://docs.ccxt.com. ccxt says what to send and understands the answers; it never sends a request
itself. Nothing here imports it before somebody asks for one of its exchanges.
"""
