"""Signs requests with an API key.

https://docs.cdp.coinbase.com/exchange/rest-api/authentication. The signature is of the time, the
method and the path with its query. A request is refused if its time is off by 30 s.
"""

import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping

from penstock.exchanges.keyed import ApiKey, Sign


def signer(key: ApiKey) -> Sign:
    """How requests are signed with a key.

    Raises:
        ValueError: the secret is not base64.
    """
    secret = b64decode(key.secret.reveal(), validate=True)

    def sign(target: str, now_ms: int) -> Mapping[str, str]:
        timestamp = str(now_ms // 1000)
        signature = hmac.digest(secret, f"{timestamp}GET{target}".encode(), "sha256")
        return {
            "CB-ACCESS-KEY": key.key.reveal(),
            "CB-ACCESS-SIGN": b64encode(signature).decode(),
            "CB-ACCESS-TIMESTAMP": timestamp,
            "CB-ACCESS-PASSPHRASE": key.passphrase.reveal(),
        }

    return sign
