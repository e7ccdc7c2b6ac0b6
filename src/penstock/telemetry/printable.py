"""Escapes external text: it must not control a terminal, nor fail to print."""

import re

_UNPRINTABLE = re.compile(
    # Control characters, changes of text direction, and what cannot be encoded.
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


def printable(text: str) -> str:
    """The text on one line, with unprintable characters escaped as in Python."""
    return _UNPRINTABLE.sub(lambda found: ascii(found[0])[1:-1], text)


def printable_json(text: str) -> str:
    """The same for JSON without line breaks, whose value is unchanged."""
    return _UNPRINTABLE.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    pair = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{pair[at : at + 2].hex()}" for at in range(0, len(pair), 2))
