"""The files of the dashboard: our own, nothing inline or from elsewhere, all in the package."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STATIC = ROOT / "crawler" / "admin" / "static"
FILES = sorted(STATIC.iterdir())
PAGE = (STATIC / "index.html").read_text(encoding="utf-8")
DOCS = (STATIC / "docs.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    text = text.replace("https://example.com/", "")
    assert not re.search(r"(https?:)?//[a-z0-9.-]+\.[a-z]{2,}", text)
    assert text.count("\n") <= (450 if path.name == "index.html" else 300)


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.suffix == ".js"], ids=lambda path: path.name
)
def test_nothing_of_the_web_becomes_markup_or_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
    assert not re.search(r"localStorage|document\.cookie", text)
    imported = set(re.findall(r'from "\./([\w.]+)"', text))
    assert imported <= {other.name for other in FILES}


@pytest.mark.parametrize("page", [PAGE, DOCS], ids=["dashboard", "docs"])
def test_nothing_is_inline(page: str) -> None:
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:", page)
    assert not re.search(r"<script(?![^>]*\ssrc=)", page)
    assert set(re.findall(r'/static/([\w.]+)"', page)) <= {path.name for path in FILES}


def test_controls_have_names_and_tables_have_captions() -> None:
    labelled = set(re.findall(r'<label[^>]* for="([\w-]+)"', PAGE))
    controls = set(re.findall(r'<(?:input|select|textarea) id="([\w-]+)"', PAGE))
    assert controls
    assert controls <= labelled
    assert PAGE.count("<table>") == PAGE.count("<caption")


def test_what_scripts_look_for_is_on_the_page() -> None:
    for path in FILES:
        if path.suffix == ".js":
            page = DOCS if path.name == "docs.js" else PAGE
            on_page = set(re.findall(r'id="([\w-]+)"', page))
            wanted = set(re.findall(r'\$\("([\w-]+)"\)', path.read_text(encoding="utf-8")))
            assert wanted <= on_page, path.name


def test_the_files_are_part_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "admin/static/*" in project["tool"]["setuptools"]["package-data"]["crawler"]
