"""Masks secrets in texts: those in URLs, and those that this process was told of."""

import json
import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

# A name and a password extend to the last "@" of the word, since a password may contain "@" and "/"
# by mistake; a colon before a port begins no password. A name alone ends before "/", "?" or "#".
_USERINFO = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*://)"
    r"(?:[^\s'\"<>/?#@:\[]*:(?![0-9]*(?:[/?#]|$))[^\s'\"<>]*@|[^\s'\"<>/?#]*@)"
)
_PARAMETER = re.compile(
    r"([?&](?:[a-z]*passw(?:or)?d|passfile|pwd|[a-z_-]*token|[a-z_-]*secret|api_?key)=)[^&#\s'\"<>]*",
    re.IGNORECASE,
)
_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#@:]*:(?![0-9]*(?:[/?#]|$))(.+)@", re.DOTALL)
_SHORTEST = 8


class _Hidden:
    texts: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None


def mask_urls(text: str) -> str:
    """Return a text with the names and passwords in its URLs masked, and hidden texts too."""
    if "://" in text:
        text = _PARAMETER.sub(r"\1***", _USERINFO.sub(r"\1***@", text))
    return text if _Hidden.pattern is None else _Hidden.pattern.sub("***", text)


def hide(secrets: Iterable[str]) -> None:
    """Mask these secrets from now on, wherever they appear: a driver may quote them in an error.

    Short ones and plain words are left out, since they would mask parts of other words.
    """
    spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
    usable = {each for each in spellings if len(each) >= _SHORTEST and not each.isalpha()}
    if usable <= _Hidden.texts:
        return
    _Hidden.texts |= usable
    longest_first = sorted(_Hidden.texts, key=len, reverse=True)
    _Hidden.pattern = re.compile("|".join(map(_escaped_or_not, longest_first)))


def _spellings(secret: str) -> set[str]:
    """How a secret may be written: as it is, in a URL, in JSON."""
    plain = {secret, unquote(secret)}
    return plain | {quote(each, safe="") for each in plain} | {json.dumps(p)[1:-1] for p in plain}


def _escaped_or_not(text: str) -> str:
    """A pattern for a text in any number of quotations, one inside the other."""
    parts = re.findall(r"""\\+|['"]|[^\\'"]+""", text)
    within = {"\\": r"\\+", "'": r"\\*'", '"': r'\\*"'}
    return "".join(within.get(part[0], re.escape(part)) for part in parts)


def password_in(url: str) -> str | None:
    """Return the password in a URL, as it is written there."""
    found = _PASSWORD.match(url)
    return found[1] if found else None
