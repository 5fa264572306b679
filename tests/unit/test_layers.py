"""The layers of the project: what may import what, and which modules are pure."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CRAWLER = ROOT / "crawler"
MODULES = sorted(CRAWLER.rglob("*.py"))

# From the bottom to the top: a line imports from the lines below it, never from beside or above.
LINES = [
    "errors",
    "urls util",
    "items settings",
    "config",
    "servers parsing dedup topics",
    "frontier reading",
    "discovery dns storage",
    "download politeness",
    "scheduling robots rendering",
    "monitoring",
    "scheduler admin",
    "spiders middlewares pipelines",
    "fastpath",
    "extensions",
    "addon project",
    "commands",
]
LAYER = {name: number for number, line in enumerate(LINES) for name in line.split()}

# Imports against the rule, as (importing module, package or module it imports), with the reason.
EXCEPTIONS: set[tuple[str, str]] = set()

# What a module that calls itself pure may not import: servers, engines, clocks, files, the network.
IMPURE = frozenset(
    "scrapy twisted redis pymongo aiohttp asyncio ssl select selectors subprocess threading time "
    "os shutil tempfile urllib.request http.client".split()
)
# Calls that read a clock, a file or standard input though their modules are harmless.
IMPURE_CALLS = frozenset(
    "open input datetime.now datetime.today datetime.utcnow date.today socket.socket "
    "socket.create_connection socket.getaddrinfo".split()
)


def name_of(path: Path) -> str:
    return path.relative_to(CRAWLER).as_posix()


def package_of(module: str) -> str:
    """`frontier` of crawler.frontier.outbox, `scheduler` of crawler.scheduler."""
    return module.split(".")[1]


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker reads; those inside functions too."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from running_nodes(child)


def imported(tree: ast.AST) -> set[str]:
    """Full names of modules, and of what is taken from them."""
    found: set[str] = set()
    for node in running_nodes(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def against_the_rule(module: str, tree: ast.AST) -> set[str]:
    own = package_of(module)
    names = {name for name in imported(tree) if name.startswith("crawler.")}
    return {
        name
        for name in names
        if package_of(name) != own
        and LAYER[package_of(name)] >= LAYER[own]
        and not any(
            module == importer and (name + ".").startswith(target + ".")
            for importer, target in EXCEPTIONS
        )
    }


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_the_lines_below_its_own(path: Path) -> None:
    module = module_of(path)
    if module != "crawler":
        assert not against_the_rule(module, ast.parse(path.read_text(encoding="utf-8")))


def test_every_package_has_a_line() -> None:
    packages = {package_of(module_of(path)) for path in MODULES if module_of(path) != "crawler"}
    assert packages == set(LAYER)


def test_exceptions_are_needed() -> None:
    for importer, target in EXCEPTIONS:
        path = ROOT / importer.replace(".", "/")
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        names = imported(ast.parse(path.read_text(encoding="utf-8")))
        assert any((name + ".").startswith(target + ".") for name in names)


def test_the_detector_sees_imports_in_functions_but_not_those_for_types() -> None:
    tree = ast.parse(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from crawler.commands import crawl\n"
        "def later():\n    from crawler.admin import server\n"
        "from crawler import scheduler\n"
        "from crawler.urls import host_of\n"
    )
    assert against_the_rule("crawler.frontier.outbox", tree) == {
        "crawler.admin.server",
        "crawler.scheduler",
    }


# --- modules that call themselves pure -----------------------------------------------------------


def is_pure(path: Path) -> bool:
    """Does its docstring promise it, in a sentence that begins so: "Pure." or "Pure: no clock."?"""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    summary = " ".join(text.partition("\n\n")[0].split())
    return summary.startswith("Pure") or ". Pure" in summary


PURE = [path for path in MODULES if is_pure(path)]


def impurities(tree: ast.AST) -> set[str]:
    found = {
        name
        for name in imported(tree)
        if any((name + ".").startswith(impure + ".") for impure in IMPURE)
    }
    for node in running_nodes(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in IMPURE_CALLS:
            found.add(ast.unparse(node.func))
    return found


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_a_module_that_calls_itself_pure_is(path: Path) -> None:
    assert not impurities(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", PURE, ids=name_of)
def test_what_a_pure_module_imports_of_ours_is_pure_too(path: Path) -> None:
    names = imported(ast.parse(path.read_text(encoding="utf-8")))
    for name in names:
        file = file_of(name)
        if file is not None and file.name != "__init__.py":
            tree = ast.parse(file.read_text(encoding="utf-8"))
            assert not impurities(tree), f"{name} is not pure"


def file_of(name: str) -> Path | None:
    """The file of the module that a full name is in; None for those of others."""
    if not name.startswith("crawler."):
        return None
    path = ROOT / name.replace(".", "/")
    for each in (path, path.parent):
        if each.with_suffix(".py").is_file():
            return each.with_suffix(".py")
        if (each / "__init__.py").is_file():
            return each / "__init__.py"
    return None


def test_there_are_pure_modules_in_every_place_that_has_policies() -> None:
    places = {package_of(module_of(path)) for path in PURE}
    assert places >= {"urls", "parsing", "dedup", "discovery", "politeness", "robots", "scheduling"}
