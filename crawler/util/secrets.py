"""Hide passwords and tokens in texts for people and logs. Pure."""

import re
from collections.abc import Iterable
from urllib.parse import unquote

_HIDDEN = "***"
# Shorter texts are no secrets, and are part of ordinary words.
_SECRET_CHARS = 6
_SHOWN_CHARS = 200
# The password of a URL, of whatever kind. Examples in our own texts have … in its place.
_PASSWORD = re.compile(r"(://[^\s:/@?#]*:)(?!…@[^\s/@]*(?:[\s/]|$))([^\s/]+)@")
# The beginning of a pattern: the name of a secret, and what is between it and its value.
_NAMED = (
    r"(?i)((?:\b|_|keyfile)(?:token|(?:ssl)?password|passwd|passphrase|pass|secret|signature|sig|pem"
    r"|api[_-]?key|access[_-]?key)(?:=|['\"]\s*[:=]\s*)"
)
_PATTERNS = (
    (_PASSWORD, rf"\1{_HIDDEN}@"),
    # Authorization: Bearer …, b'Authorization': [b'Basic …'], as headers are printed.
    (
        re.compile(
            r"(?i)\b((?:proxy-)?authorization['\"]?\s*[:=]\s*\[?(?:b?['\"])?)"
            r"((?:bearer|basic|digest|token)\s+)?[^\s'\",\]]+"
        ),
        rf"\1\2{_HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}"), rf"\1{_HIDDEN}"),
    (re.compile(r"(?i)\b(x-api-key\s*:\s*)[^\s'\"]+"), rf"\1{_HIDDEN}"),
    # authMechanismProperties=AWS_SESSION_TOKEN:…, in the URI of a MongoDB.
    (re.compile(r"(?i)\b(aws_session_token:)[^\s'\",&]+"), rf"\1{_HIDDEN}"),
    # token=…, 'ADMIN_TOKEN': '…', as settings, JSON and queries have them; up to the end of quotes.
    (re.compile(_NAMED + r'b?")(?:\\.|[^"\\\n])+'), rf"\1{_HIDDEN}"),
    (re.compile(_NAMED + r"b?')(?:\\.|[^'\\\n])+"), rf"\1{_HIDDEN}"),
    (re.compile(_NAMED + r")(?!…(?:[\s'\",&})]|$))[^\s'\",&})]+"), rf"\1{_HIDDEN}"),
)


def without_secrets(text: str) -> str:
    """Hide passwords of URLs, credentials of headers and values of secret names."""
    for pattern, hidden in _PATTERNS:
        text = pattern.sub(hidden, text)
    return text


def shown(text: str) -> str:
    """Hide secrets as `without_secrets`, and cut the text to the length of a line."""
    text = without_secrets(text)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


class Mask:
    """Secrets that a process knows, hidden wherever they occur, and all that look like one."""

    def __init__(self, secrets: Iterable[str | None] = ()) -> None:
        known = {secret for secret in secrets if secret and len(secret) >= _SECRET_CHARS}
        self._secrets = sorted(known, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return without_secrets(text)


# The password of an address without a scheme: user:password@host.
_BARE_PASSWORD = re.compile(r"(?:^|[\s:=/])[\w.%+-]+:([^\s:/@]+)@")


def url_passwords(text: str | None) -> list[str]:
    """Return the passwords of the addresses in a text, as written and percent-decoded."""
    found = [password for _, password in _PASSWORD.findall(text or "")]
    found += _BARE_PASSWORD.findall(text or "")
    return [*found, *map(unquote, found)]
