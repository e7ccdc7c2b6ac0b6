"""Posts alerts to a webhook, in the form that Slack, Discord or a program of one's own reads.

The address is a secret: it is in no message of an error.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.config import Alerts
from penstock.errors import PenstockError, mask_urls
from penstock.stats.alerts import Alert, What

_TIMEOUT_S = 10.0
_MOST_LINES = 20
_LONGEST_LINE = 400
_LONGEST_DISCORD = 2000
_MOST_RETRY_S = 3600.0
_SIGNS: dict[What, str] = {"firing": "🔴", "still firing": "🟠", "resolved": "🟢"}


class Message(NamedTuple):
    """What is to be sent of one alert."""

    what: What
    alert: Alert


class NotDelivered(PenstockError):
    """A webhook did not accept a message; it is sent again."""

    def __init__(self, reason: str, retry_s: float = 0.0) -> None:
        self.retry_s = retry_s
        """Seconds for which it asked to wait."""
        super().__init__(f"the webhook (alerts.webhook) {reason}")


async def post(settings: Alerts, found: Sequence[Message]) -> None:
    """Post messages as one.

    Raises:
        NotDelivered: it was not accepted.
    """
    import aiohttp  # noqa: PLC0415 - commands that show alerts and post none start sooner

    body = msgspec.json.encode(BODIES[settings.format](found))
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                settings.webhook.reveal(), data=body, headers={"Content-Type": "application/json"},
                allow_redirects=False,
            ) as answer,
        ):  # fmt: skip
            status, retry = answer.status, answer.headers.get("Retry-After", "")
    except TimeoutError:
        raise NotDelivered(f"did not answer within {_TIMEOUT_S:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # Its text may hold the address.
        raise NotDelivered(f"cannot be reached: {type(error).__name__}") from None
    if not 200 <= status < 300:
        wait_s = min(float(retry), _MOST_RETRY_S) if retry.isdecimal() else 0.0
        raise NotDelivered(f"answered {status}", wait_s)


def _line(message: Message) -> str:
    what, alert = message
    words = f"{_SIGNS[what]} {what}: {alert.rule} {alert.subject}: {alert.message}"
    words = mask_urls(" ".join(words.split()))
    return words if len(words) <= _LONGEST_LINE else words[: _LONGEST_LINE - 1] + "…"


def _lines(found: Sequence[Message]) -> list[str]:
    lines = [_line(each) for each in found[:_MOST_LINES]]
    more = len(found) - len(lines)
    return [*lines, *([f"and {more} more. See: penstock alerts"] if more else [])]


def _slack(found: Sequence[Message]) -> dict[str, Any]:
    text = "\n".join(_lines(found))
    # Slack reads links and mentions between angle brackets.
    for plain, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, escaped)
    return {"text": text}


def _discord(found: Sequence[Message]) -> dict[str, Any]:
    text = "\n".join(_lines(found))
    if len(text) > _LONGEST_DISCORD:
        text = text[: _LONGEST_DISCORD - 1] + "…"
    return {"content": text, "allowed_mentions": {"parse": []}}


def _json(found: Sequence[Message]) -> dict[str, Any]:
    return {
        "alerts": [
            {
                "what": what,
                "rule": alert.rule,
                "subject": alert.subject,
                "message": mask_urls(alert.message),
                "severity": alert.severity,
                "since_ms": alert.since_ms,
                "changed_ms": alert.changed_ms,
                "times": alert.times,
            }
            for what, alert in found
        ]
    }


BODIES = {"slack": _slack, "discord": _discord, "json": _json}
"""By format: the body of a message."""
