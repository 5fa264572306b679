"""Write a link to a page in one of the many forms that the real web uses. Pure.

All forms lead to the same canonical URL. `../` and `./../` are right because every ordinary page
lies at most one directory deep.
"""

from typing import Final

from demo.graph import Target, page_path
from demo.words import ANCHOR_COUNT, ANCHORS

# Text before the path, by form; {host} and {HOST} are the target's host name.
_INSIDE: Final = (
    *("",) * 20,
    *("..",) * 3,
    "./..",
    "//{host}",
    "http://{host}",
    "http://{host}",
    "HTTP://{HOST}",
    "http://{host}:80",
    " ",
    "",
    "",
)
_ACROSS: Final = (
    *("http://{host}",) * 26,
    "//{host}",
    "//{HOST}",
    "http://{host}:80",
    "HTTP://{HOST}",
    " http://{host}",
    "http://{HOST}",
)
FORMS: Final = 32
_FRAGMENT_FORM: Final = 31
_TRACKED_FORM: Final = 30


def _prefixes(patterns: tuple[str, ...], host: str) -> tuple[str, ...]:
    return tuple(pattern.format(host=host, HOST=host.upper()) for pattern in patterns)


def inside_prefixes(host: str) -> tuple[str, ...]:
    """Return the beginnings of links within `host`, one for each form."""
    return _prefixes(_INSIDE, host)


def anchor(target: Target, value: int, here: int, inside: tuple[str, ...]) -> str:
    """Return an HTML link to `target`, its form and its text chosen by the number `value`."""
    number, index = target
    path = page_path(number, index)
    form = value & 31
    if number == here:
        start = inside[form]
    else:
        name = f"s{number}.test"
        start = _ACROSS[form].format(host=name, HOST=name.upper())
    if form >= _TRACKED_FORM:
        if form == _FRAGMENT_FORM:
            path += "#part-2"
        else:
            path += "&utm_source=demo" if "?" in path else "?utm_source=demo&utm_medium=web"
    if "&" in path:
        path = path.replace("&", "&amp;")
    elif "%C3" in path and value & 32:
        path = path.replace("caf%C3%A9", "café")
    return f'<a href="{start}{path}">{ANCHORS[(value >> 8) % ANCHOR_COUNT]}</a>'
