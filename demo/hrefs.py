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
_PLAIN_ACROSS: Final = 26
_ACROSS: Final = (
    "//{host}",
    "//{HOST}",
    "http://{host}:80",
    "HTTP://{HOST}",
    " http://{host}",
    "http://{HOST}",
)
_ANCHOR_MASK: Final = ANCHOR_COUNT - 1
_FRAGMENT_FORM: Final = 31
_TRACKED_FORM: Final = 30


def inside_prefixes(host: str) -> tuple[str, ...]:
    """Return the beginnings of links within `host`, one for each form."""
    return tuple(pattern.format(host=host, HOST=host.upper()) for pattern in _INSIDE)


def across_prefix(number: int, form: int) -> str:
    """Return the beginning of a link to another host."""
    if form < _PLAIN_ACROSS:
        return f"http://s{number}.test"
    name = f"s{number}.test"
    return _ACROSS[form - _PLAIN_ACROSS].format(host=name, HOST=name.upper())


def html_path(target: Target) -> str:
    """Return the path of a page as it is written in an attribute."""
    return page_path(*target).replace("&", "&amp;")


def anchor(start: str, path: str, value: int) -> str:
    """Return an HTML link whose form and text are chosen by the number `value`.

    `start` is what the form puts before the path, `path` is as `html_path` gives it.
    """
    form = value & 31
    if form == _FRAGMENT_FORM:
        path += "#part-2"
    elif form == _TRACKED_FORM:
        path += ("&amp;" if "?" in path else "?") + "utm_source=demo&amp;utm_medium=web"
    if "%C3" in path and value & 32:
        path = path.replace("caf%C3%A9", "café")
    return f'<a href="{start}{path}">{ANCHORS[(value >> 8) & _ANCHOR_MASK]}</a>'
