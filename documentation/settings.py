"""Settings reference, read from crawler/settings.py: its values, and the comments above them.

A comment above a setting is its meaning, and that of the settings directly below it. A comment
that a blank line follows speaks of its whole section. A trailing comment is the unit of a number;
after a semicolon it may have the version since which there is the setting: `# s; since 0.2`.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scrapy.settings import default_settings

from crawler import settings
from documentation.markdown import GENERATED, anchored, code, plain, table

FIRST_VERSION = "0.1"
# Longer defaults are shown below their table.
_DEFAULT_MAX = 40
_TITLE = re.compile(r"# --- (.*?)(?: \((.*)\))? -*$")
_UNIT = re.compile(r"\s{2}# (.*)$")
_NAME = re.compile(r"(?<![`\"\w./-])[A-Z][A-Z0-9_]{4,}(?![`\"\w])")
_PAGE = re.compile(r"\bdocs/([\w./-]+\.md)")
_MODULE = re.compile(r"\bcrawler/[\w./-]+\.(?:py|txt)")
_ENVIRONMENT = re.compile(r'os\.environ\.get\("(\w+)"')
_OTHERWISE = re.compile(r' or (".+")$')
_SCRAPYS = "https://docs.scrapy.org/en/latest/topics/settings.html"

_HEAD = f"""{GENERATED}

# Settings

Every setting of the project. Set one on the command line (`-s NAME=value`), in the settings of
your own project, or in the `custom_settings` of a spider. A default as `$REDIS_URL` is read from
the environment. `scrapy doctor` checks the settings of a crawl.

Settings of Scrapy that are not here keep [Scrapy's meaning]({_SCRAPYS}) and default.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it is declared."""

    name: str
    # Its source, also over several lines.
    default: str
    unit: str
    since: str


@dataclass(slots=True)
class Group:
    """Settings that share a comment."""

    meaning: str
    settings: list[Setting] = field(default_factory=list)


@dataclass(slots=True)
class Section:
    """Part of the file under a title."""

    title: str
    about: str = ""
    groups: list[Group] = field(default_factory=list)


def sections(source: str) -> list[Section]:
    """Read the sections of settings.py."""
    declared = {node.lineno: node for node in ast.parse(source).body if _name(node)}
    lines = source.splitlines()
    found: list[Section] = []
    comment: list[str] = []
    at = 0
    while at < len(lines):
        line, node = lines[at], declared.get(at + 1)
        at += 1
        if title := _TITLE.match(line):
            found.append(Section(title[1], about=f"See {title[2]}." if title[2] else ""))
            comment = []
        elif line.startswith("#"):
            comment.append(line.removeprefix("#").strip())
        elif node is not None and found:
            groups = found[-1].groups
            if comment or not groups:
                groups.append(Group(" ".join(comment)))
            comment = []
            assert node.end_lineno is not None
            groups[-1].settings.append(_setting(node, lines))
            at = node.end_lineno
        elif not line and found:
            if comment:
                found[-1].about = " ".join([*filter(None, [found[-1].about]), *comment])
                comment = []
            # What follows a blank line has a meaning of its own.
            found[-1].groups.append(Group(""))
    for section in found:
        section.groups = [group for group in section.groups if group.settings]
    return found


def _name(node: ast.stmt) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    name = targets[0].id if isinstance(targets[0], ast.Name) else ""
    return name if name.isupper() else ""


def _setting(node: ast.stmt, lines: list[str]) -> Setting:
    assert isinstance(node, ast.Assign | ast.AnnAssign)
    assert node.value is not None
    default = ast.get_source_segment("\n".join(lines), node.value)
    assert default is not None
    assert node.end_lineno is not None
    trailing = _UNIT.search(lines[node.end_lineno - 1])
    unit, _, since = (trailing[1] if trailing else "").partition("; since ")
    return Setting(_name(node), default, unit, since or FIRST_VERSION)


def page() -> str:
    """Return the page."""
    source = Path(settings.__file__).read_text(encoding="utf-8")
    return "\n".join([_HEAD, *(_section(section) for section in sections(source))])


def _section(section: Section) -> str:
    rows = [row for group in section.groups for row in _rows(group)]
    parts = [f"## {section.title}\n"]
    if section.about:
        parts.append(f"{_meaning(section.about)}\n")
    parts.append(table(("setting", "default", "unit", "since", "meaning"), rows))
    settings_ = [setting for group in section.groups for setting in group.settings]
    if long := [setting for setting in settings_ if _is_long(setting)]:
        source = "\n".join(f"{setting.name} = {setting.default}" for setting in long)
        parts.append(f"Long defaults:\n\n```python\n{source}\n```\n")
    return "\n".join(parts)


def _rows(group: Group) -> Iterator[tuple[str, ...]]:
    """Yield a row for each setting; what they share is said once."""
    meaning = _meaning(group.meaning) or _scrapys(group)
    for setting in group.settings:
        unit = setting.unit or "–"
        yield anchored(setting.name), _default(setting), unit, setting.since, meaning
        meaning = "see above"


def _default(setting: Setting) -> str:
    if variable := _ENVIRONMENT.match(setting.default):
        other = _OTHERWISE.search(setting.default)
        return code(f"${variable[1]}" + (f" or {other[1]}" if other else ""))
    if _is_long(setting):
        return "below"
    return code(setting.default)


def _is_long(setting: Setting) -> bool:
    is_long = len(setting.default) > _DEFAULT_MAX or "\n" in setting.default
    return is_long and not _ENVIRONMENT.match(setting.default)


def _scrapys(group: Group) -> str:
    """Return what is said of settings without a comment, all of which are Scrapy's."""
    unknown = [s.name for s in group.settings if not hasattr(default_settings, s.name)]
    assert not unknown, f"{', '.join(unknown)}: say what it means above it in crawler/settings.py"
    links = (f"[{s.name}]({_SCRAPYS}#std-setting-{s.name})" for s in group.settings)
    return f"Scrapy's: {', '.join(links)}"


def _meaning(text: str) -> str:
    """Return a comment as Markdown: names of settings and pages become links."""
    text = with_links(plain(text))
    text = _PAGE.sub(lambda page: f"[{Path(page[1]).stem}](../{page[1]})", text)
    return _MODULE.sub(lambda module: code(module[0]), text)


def with_links(text: str, page: str = "") -> str:
    """Link names of settings in Markdown to their anchors on a page, by default the same."""

    def link(found: re.Match[str]) -> str:
        name = found[0]
        return f"[{code(name)}]({page}#{name.lower()})" if hasattr(settings, name) else name

    return _NAME.sub(link, text)
