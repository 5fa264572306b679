"""The generated pages of the docs: current, and complete by a second count."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from scrapy.settings import default_settings

from crawler import settings
from crawler.admin.server import create_api
from crawler.commands import archive, frontier, jobs, pages, token, topic
from documentation import commands, live_view
from documentation import settings as settings_reference

ROOT = Path(__file__).resolve().parents[3]
REFERENCE = ROOT / "docs" / "reference"


def read(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def headings(text: str) -> set[str]:
    return set(re.findall(r"^#+ (?:<a [^>]*></a>)?(.*)$", text, re.MULTILINE))


def test_the_generated_pages_are_what_the_code_says() -> None:
    # In a process of its own: Scrapy's commands change the process that they run in.
    done = subprocess.run(
        [sys.executable, "-m", "documentation", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_picture_of_the_live_view_is_what_the_code_draws() -> None:
    # The words: how they are drawn differs between versions of rich.
    def words(svg: str) -> list[str]:
        return " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg)).split()

    svg = live_view.PICTURE.read_text(encoding="utf-8")
    assert words(svg) == words(live_view.picture())
    assert "url(http" not in svg.replace('"', "")


def test_every_setting_is_in_its_reference() -> None:
    declared = {name for name in vars(settings) if name.isupper()}
    assert (
        set(re.findall(r'<a id="[a-z0-9_]+"></a>`([A-Z0-9_]+)`', read("settings.md"))) == declared
    )


def test_every_number_among_the_settings_has_a_unit() -> None:
    source = Path(settings.__file__).read_text(encoding="utf-8")
    found = [
        setting
        for section in settings_reference.sections(source)
        for group in section.groups
        for setting in group.settings
    ]
    numbers = [one for one in found if type(getattr(settings, one.name)) in (int, float)]
    assert len(numbers) > 80
    assert [one.name for one in numbers if not one.unit] == []


def test_every_command_and_verb_is_in_its_reference() -> None:
    found = headings(read("commands.md"))
    assert {f"scrapy {name}" for name in commands.names()} <= found
    for command in (archive, frontier, jobs, pages, token, topic):
        verbs = command.Command.verbs
        assert verbs
        assert {f"scrapy {command.Command.name} {verb}" for verb in verbs} <= found


def test_every_call_of_the_api_is_in_its_reference() -> None:
    api = create_api(cast(Any, None))
    calls = {
        f"{method.upper()} {path}"
        for path, operations in api.openapi()["paths"].items()
        for method in operations
    }
    assert len(calls) > 20
    assert calls <= headings(read("api.md"))


SOURCE = """
# --- Servers (docs/operations.md) ------
# Told of all of them.

# Seconds to wait: PATIENCE times
# two.
PATIENCE = 7.5  # s; since 0.2
OTHER: str | None = None
# A list.
LONG = [
    "one",
]
"""


def test_settings_are_read_with_their_comments_units_and_versions() -> None:
    (section,) = settings_reference.sections(SOURCE)
    assert (section.title, section.about) == (
        "Servers",
        "See docs/operations.md. Told of all of them.",
    )
    first, second = section.groups
    assert first.meaning == "Seconds to wait: PATIENCE times two."
    assert [(s.name, s.default, s.unit, s.since) for s in first.settings] == [
        ("PATIENCE", "7.5", "s", "0.2"),
        ("OTHER", "None", "", "0.1"),
    ]
    assert second.settings[0].default == '[\n    "one",\n]'


def test_a_setting_without_a_meaning_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "settings.py"
    file.write_text("# --- Servers ---\nNAMELESS = 1\n", encoding="utf-8")
    monkeypatch.setattr(settings, "__file__", str(file))
    with pytest.raises(AssertionError, match="NAMELESS: say what it means"):
        settings_reference.page()


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_names_only_verbs_and_settings_that_exist(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    verbs = {
        command.Command.name: {*command.Command.verbs}
        for command in (archive, frontier, jobs, pages, token, topic)
    }
    # `scrapy jobs` alone is a list, with its options.
    named = re.findall(rf"[`|&] *scrapy ({'|'.join(verbs)}) ([a-z]+)", text)
    assert [f"scrapy {name} {verb}" for name, verb in named if verb not in verbs[name]] == []
    known = {*vars(settings), *vars(default_settings)}
    given = set(re.findall(r" -s '?\"?([A-Z][A-Z0-9_]+)=", text))
    assert given <= known


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_of_pages_beside_the_docs_lead_somewhere(name: str) -> None:
    # Those inside the docs are checked when the site is built.
    links = re.findall(
        r"\]\((?!https?://)([^)#]+)(?:#([^)]*))?\)", (ROOT / name).read_text("utf-8")
    )
    assert links
    for target, anchor in links:
        assert (ROOT / target).exists(), target
        if anchor and target.endswith(".md"):
            assert anchor in anchors((ROOT / target).read_text("utf-8")), f"{target}#{anchor}"


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as GitHub and MkDocs make them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
