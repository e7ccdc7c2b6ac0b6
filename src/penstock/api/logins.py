"""Delays clients that send wrong tokens.

After a few failures in a row, tokens from that address are rejected without a check for a while,
longer each time. The number of stored addresses is bounded: the one that failed longest ago is
removed.
"""

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address, ip_network

from penstock.clock import Clock

FREE_FAILURES = 5
"""Wrong tokens in a row without a delay, in case of a mistake."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 8.0
_MOST_ADDRESSES = 1024


class Logins:
    """Failed logins, by address."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, tuple[int, int]] = OrderedDict()
        """Address → failures in a row, and when the next token is checked."""

    def wait_s(self, client: str) -> float:
        """Return the seconds until a token from this client is checked."""
        _, until_ns = self._failed.get(_network(client), (0, 0))
        return max(0.0, (until_ns - self._clock.monotonic_ns()) / 1_000_000_000)

    def succeeded(self, client: str) -> None:
        """Record a correct token."""
        self._failed.pop(_network(client), None)

    def failed(self, client: str) -> int:
        """Record a wrong token; return the number of wrong tokens in a row."""
        network = _network(client)
        times = self._failed.pop(network, (0, 0))[0] + 1
        wait_s = 0.0
        if times >= FREE_FAILURES:
            wait_s = min(_FIRST_WAIT_S * 2.0 ** min(times - FREE_FAILURES, 10), _LONGEST_WAIT_S)
        until_ns = self._clock.monotonic_ns() + round(wait_s * 1_000_000_000)
        self._failed[network] = times, until_ns
        if len(self._failed) > _MOST_ADDRESSES:
            self._failed.popitem(last=False)
        return times


def _network(client: str) -> str:
    """Return the addresses that one client can choose from: in IPv6, a whole network."""
    try:
        address = ip_address(client.partition("%")[0])
    except ValueError:
        return client
    if isinstance(address, IPv6Address):
        return str(ip_network((address, 64), strict=False))
    return str(address)
