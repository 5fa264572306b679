"""One vocabulary: the words of the dashboard, the terminal and the docs are the same."""

import ast
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STATIC = ROOT / "crawler" / "admin" / "static"
CONSOLE = ROOT / "crawler" / "monitoring" / "console"
# Closing lines of a summary: sentences and commands, no figures.
CLOSING = {
    *("ended", "no page, because", "pages lie in", "still spooled", "frontier lies in"),
    *("look at a page", "dashboard", "resume"),
}


def words_of_the_dashboard() -> dict[str, str]:
    text = (STATIC / "words.js").read_text(encoding="utf-8")
    found = re.search(r"export const WORDS = (\{.*?\n\});", text, re.DOTALL)
    assert found is not None
    words: dict[str, str] = json.loads(re.sub(r",\s*\}$", "}", found[1]))
    return words


WORDS = words_of_the_dashboard()


def strings(path: Path, pattern: str) -> set[str]:
    return set(re.findall(pattern, path.read_text(encoding="utf-8")))


def test_the_glossary_has_the_words_with_the_same_meanings() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    table = glossary.partition("## Words of figures")[2]
    rows = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE))
    assert rows.pop("word") == "meaning"
    assert rows == WORDS
    assert list(rows) == sorted(rows, key=str.lower)


def test_what_the_dashboard_explains_is_one_of_them() -> None:
    used = strings(STATIC / "index.html", r'data-word="([^"]+)"')
    tiles = (STATIC / "overview.js").read_text(encoding="utf-8").partition("const HOSTS")[0]
    used |= set(re.findall(r'^  \["\w+", "([^"]+)"\],$', tiles, re.MULTILINE))
    for name in ("overview.js", "host.js"):
        # Lists of facts: what is not in capitals or about one file of a host.
        facts = (STATIC / name).read_text(encoding="utf-8").partition("facts($(")[2]
        used |= set(re.findall(r'^      \["([a-z][a-z .]+)", ', facts, re.MULTILINE))
    used -= {"status", "fetched", "used until", "reason", "addresses", "asked again in"}
    used -= {"usable for"}
    assert len(used) > 45
    assert used <= WORDS.keys()


def test_the_live_view_and_the_summary_use_no_other_words() -> None:
    view = strings(CONSOLE / "view.py", r'add_row\("([^"]+)"')
    summary = strings(CONSOLE / "summary.py", r'yield "([^"]+)", ')
    assert len(view) >= 13
    assert len(summary) >= 20
    assert view | (summary - CLOSING) <= WORDS.keys()


def test_the_status_on_the_command_line_uses_no_other_words() -> None:
    tree = ast.parse((ROOT / "crawler" / "commands" / "frontier.py").read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if hasattr(node, "name")}
    texts: set[str] = set()
    for node in ast.walk(functions["_status"]):
        if isinstance(node, ast.Dict) and any(
            isinstance(key, ast.Constant) and key.value == "pages crawled" for key in node.keys
        ):
            texts |= {key.value for key in node.keys if isinstance(key, ast.Constant)}
    for name in ("_status", "_print_sinks"):
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Tuple) and len(node.elts) > 4:
                values = [each.value for each in node.elts if isinstance(each, ast.Constant)]
                if len(values) == len(node.elts):
                    texts |= set(map(str, values))
    assert len(texts) >= 20
    assert texts <= WORDS.keys()


def test_states_of_hosts_are_called_alike() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    states = page.partition('<select id="host-state">')[2].partition("</select>")[0]
    shown = dict(re.findall(r'<option value="(\w+)">([^<]+)<', states))
    assert {name: text.lower() for name, text in shown.items()} == {
        name: name.replace("_", " ") for name in shown
    }
    assert set(map(str.lower, shown.values())) <= WORDS.keys()


def test_the_tutorial_explains_figures_by_the_same_words() -> None:
    explained: set[str] = set()
    for name, title in (("first-crawl", "line"), ("fleet", "word")):
        text = (ROOT / "docs" / "tutorial" / f"{name}.md").read_text(encoding="utf-8")
        table = text.partition(f"| {title} | meaning |\n|---|---|\n")[2].partition("\n\n")[0]
        for first in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE):
            explained |= set(first.split(", "))
    assert len(explained) >= 10
    assert explained <= WORDS.keys()
