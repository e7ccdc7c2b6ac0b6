"""Signed requests: checked, and counted by key."""

import hashlib
import hmac
from base64 import b64encode

import pytest
from tests.simulator.answers import answered

from penstock.config import SimulatedCoinbase, Simulator
from penstock.errors import ConfigError
from penstock.simulator.coinbase import Coinbase
from penstock.simulator.coinbase.rules import SIGNED, refusal
from penstock.simulator.coinbase.signatures import Signatures
from penstock.simulator.engine.exchange import Asked, Refused
from penstock.simulator.engine.limits import RequestLimiter

TARGET = "/products/BTC-USD/trades?limit=3"
NOW_S = 1_741_178_096


def signed(target: str = TARGET, at_s: float = NOW_S, **changed: str | None) -> Asked:
    said = f"{at_s}GET{target}".encode()
    headers = {
        "User-Agent": "tests",
        "CB-ACCESS-KEY": "simulated",
        "CB-ACCESS-SIGN": b64encode(hmac.new(b"simulated", said, hashlib.sha256).digest()).decode(),
        "CB-ACCESS-TIMESTAMP": str(at_s),
        "CB-ACCESS-PASSPHRASE": "simulated",
    }
    for name, value in changed.items():
        header = f"CB-ACCESS-{name.upper()}"
        headers.pop(header) if value is None else headers.update({header: value})
    return Asked({"product": "BTC-USD", "limit": "3"}, headers, TARGET)


def test_a_signed_request_is_answered_and_counted_by_its_key(exchange: Coinbase) -> None:
    route = exchange.routes["/products/{product}/trades"]

    assert answered(route, signed(), NOW_S * 1000 + 29_000)
    assert route.target(signed()) == (SIGNED, "simulated")
    assert route.target(Asked({}, {"User-Agent": "tests"}, TARGET)).group == ""


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (signed(sign="bm8="), "invalid signature"),
        (signed("/products/BTC-USD/trades?limit=4"), "invalid signature"),
        (signed(key="other"), "Invalid API Key"),
        (signed(passphrase="other"), "invalid passphrase"),
        (signed(timestamp="soon"), "invalid timestamp"),
        (signed(timestamp=None), "CB-ACCESS-TIMESTAMP header is required"),
    ],
)
def test_a_wrong_signature_is_refused_and_counted_by_address(
    exchange: Coinbase, asked: Asked, message: str
) -> None:
    route = exchange.routes["/products/{product}/trades"]

    with pytest.raises(Refused) as refused:
        answered(route, asked, NOW_S * 1000)

    assert refused.value.reply.status == 401
    assert message in refused.value.reply.body.decode()
    assert route.target(asked).group == ""


@pytest.mark.parametrize("off_s", [-31, 31])
def test_an_old_signature_is_refused(exchange: Coinbase, off_s: int) -> None:
    route = exchange.routes["/products/{product}/trades"]

    with pytest.raises(Refused, match="request timestamp expired"):
        answered(route, signed(at_s=NOW_S + off_s), NOW_S * 1000)


def test_the_limits_of_keys_and_of_addresses_are_separate(exchange: Coinbase) -> None:
    limiter = RequestLimiter(exchange.rules, None)
    route = exchange.routes["/products/{product}/trades"]
    target, unsigned = route.target(signed()), route.target(Asked({}, {"User-Agent": "tests"}))

    def burst(counted: object) -> int:
        verdicts = [limiter.admit("a", "/", 1, 0, counted) for _ in range(50)]  # type: ignore[arg-type]
        first = next(verdict for verdict in verdicts if not verdict.admitted)
        word = "Private" if counted is target else "Public"
        assert refusal(first).body == f'{{"message":"{word} rate limit exceeded"}}'.encode()
        return sum(verdict.admitted for verdict in verdicts)

    assert (burst(target), burst(unsigned)) == (30, 15)
    later = [limiter.admit("a", "/", 1, 1000, target).admitted for _ in range(50)]
    assert sum(later) == 15


def test_a_secret_that_is_not_base64_is_rejected() -> None:
    with pytest.raises(ConfigError, match="api_secret"):
        Signatures(SimulatedCoinbase(api_secret="?"))
    assert Simulator().coinbase.api_key == "simulated"
