"""The shape of the project: what imports what, which settings there are, how files look."""

import ast
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest
from scrapy.settings import default_settings

from crawler import settings
from crawler.frontier import frontier as scripts

ROOT = Path(__file__).resolve().parents[2]
CRAWLER = ROOT / "crawler"
MODULES = sorted(CRAWLER.rglob("*.py"))
LUA = sorted((CRAWLER / "frontier" / "lua").glob("*.lua"))

# Who may speak to Redis. Others may name its types, and get a connection from Servers.
REDIS = ("servers/redis/", "servers/embedded/", "frontier/", "dedup/")
SETTING = re.compile(r"[A-Z][A-Z0-9_]+")
# `settings["NAME"]`, `self._crawler.settings.getint("NAME")`
DIRECT = re.compile(
    r"""settings(?:\[["']([A-Z][A-Z0-9_]+)["']\]|\.(?:get|pop)\w*\(["']([A-Z][A-Z0-9_]+)["'])"""
)
# Below config, or about where settings come from. Commands check all settings before they start, so
# what serves them, and the views, may read a value without a second check.
UNCHECKED = (
    *("config/", "addon.py", "util/", "scheduling/options.py"),
    *("commands/", "admin/", "monitoring/", "extensions/admin.py", "extensions/monitoring.py"),
)


def name_of(path: Path) -> str:
    return path.relative_to(CRAWLER).as_posix()


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker reads."""
    for child in ast.iter_child_nodes(tree):
        if is_type_checking(child):
            continue
        yield child
        yield from running_nodes(child)


def imports(path: Path) -> set[str]:
    """Full names of the modules that a file imports when it runs."""
    found: set[str] = set()
    for node in running_nodes(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def packages(path: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(path)}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_few_modules_speak_to_redis(path: Path) -> None:
    if not name_of(path).startswith(REDIS):
        assert "redis" not in packages(path)


def settings_read(path: Path) -> set[str]:
    """Names of the settings that a file reads with Scrapy's getters."""
    return {
        name
        for match in DIRECT.finditer(path.read_text(encoding="utf-8"))
        if (name := match[1] or match[2])
    }


def texts(path: Path) -> set[str]:
    """All strings of a file: settings are also named in tables and passed on."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


DECLARED = {name for name in dir(settings) if SETTING.fullmatch(name)}
SCRAPYS = {name for name in dir(default_settings) if SETTING.fullmatch(name)}


@pytest.mark.parametrize(
    "path",
    [*MODULES, *sorted((ROOT / "demo").rglob("*.py"))],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_a_setting_that_is_read_is_declared(path: Path) -> None:
    assert settings_read(path) <= DECLARED | SCRAPYS


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_components_read_settings_of_our_own_through_config(path: Path) -> None:
    if not name_of(path).startswith(UNCHECKED):
        assert settings_read(path) <= SCRAPYS


def test_a_setting_of_our_own_is_read_somewhere() -> None:
    readers = [path for path in MODULES if path != CRAWLER / "settings.py"]
    read = set().union(*map(texts, readers))
    assert read >= DECLARED - SCRAPYS


def test_the_detector_of_settings_sees_all_the_ways_to_read_one(tmp_path: Path) -> None:
    file = tmp_path / "reader.py"
    file.write_text(
        'settings["A_A"]; crawler.settings.get("B_B"); self._settings.getint("C_C", 1)\n'
        'self._crawler.settings.getlist("D_D"); other["E_E"]; settings.set("F_F", 1)\n'
    )
    assert settings_read(file) == {"A_A", "B_B", "C_C", "D_D"}


def header_of(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(takewhile(lambda line: line.startswith("--"), lines))


# Files of lua/ that are neither the prelude nor a part of several verbs.
VERBS = [
    path.stem
    for path in LUA
    if path.stem != scripts.PRELUDE and not header_of(path).startswith("-- Part of ")
]


@pytest.mark.parametrize("verb", VERBS)
def test_a_script_starts_with_its_contract(verb: str) -> None:
    path = CRAWLER / "frontier" / "lua" / f"{verb}.lua"
    header, code = header_of(path), path.read_text(encoding="utf-8")
    assert re.match(r"-- [A-Z]", header)
    assert "\n-- KEYS[1]  shard\n" in header
    assert re.search(r"^-- Returns  \S", header, re.MULTILINE)
    used = {int(number) for number in re.findall(r"ARGV\[(\d+)\]", code)}
    named = {int(number) for number in re.findall(r"^-- ARGV\[(\d+)", header, re.MULTILINE)}
    # "ARGV[2…]" names all that follow.
    assert used <= named or ("…]" in header and used - set(range(max(named), 99)) <= named)
    assert named or "ARGV" not in code


@pytest.mark.parametrize("path", LUA, ids=lambda path: path.name)
def test_every_lua_file_is_the_prelude_a_verb_or_a_part_of_verbs(path: Path) -> None:
    if path.stem in (*VERBS, scripts.PRELUDE):
        return
    assert any(
        re.fullmatch(part.replace("{seen}", r"\w+"), path.stem)
        for parts in scripts.PARTS.values()
        for part in parts
    )


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_run_by_name(verb: str) -> None:
    modules = (CRAWLER / "frontier").glob("*.py")
    assert any(f'"{verb}"' in path.read_text(encoding="utf-8") for path in modules)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_sent_as_the_prelude_its_parts_and_its_own_file(verb: str) -> None:
    folder = CRAWLER / "frontier" / "lua"
    text, _ = scripts.script(verb)
    assert text.startswith((folder / f"{scripts.PRELUDE}.lua").read_text(encoding="utf-8"))
    assert text.endswith((folder / f"{verb}.lua").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_is_pickled(path: Path) -> None:
    assert not packages(path) & {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}


@pytest.mark.parametrize("path", [*MODULES, *LUA], ids=name_of)
def test_a_file_has_one_job_and_nothing_left_to_do(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", text)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_decisions_are_numbered_one_after_the_other_as_their_titles_say() -> None:
    decisions = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for number, path in enumerate(decisions, start=1):
        assert path.read_text(encoding="utf-8").startswith(f"# {number}. ")
