"""All exchanges that ccxt supports, named ``ccxt:NAME``, behind the same gate as all others.

https://docs.ccxt.com. ccxt builds the requests and parses the responses; it never sends a request
itself. It is imported only when one of its exchanges is used.
"""
