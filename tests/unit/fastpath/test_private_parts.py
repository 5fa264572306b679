"""The private parts of Scrapy that this project uses, all of them, and where."""

import ast
import inspect
import re
from importlib import import_module
from pathlib import Path

import scrapy

CRAWLER = Path(__file__).resolve().parents[3] / "crawler"
SCRAPY = Path(scrapy.__file__).parent

# A new version of Scrapy may change any of these: read its source for each before an upgrade.
PRIVATE_PARTS = {
    "fastpath/decompression.py": "_DecompressionMaxSizeExceeded _check_max_size _decode "
    "_handle_encoding _max_size _warn_size _warn_unknown_encoding",
    "fastpath/middleware_chains.py": "_InvalidOutput _init_depth _mw_methods_requiring_spider "
    "_process_callback_output _process_request _process_response _process_spider_exception _spider",
    "fastpath/request_task.py": "_check_if_closing _download _enqueue_request _get_slot _handlers "
    "_old_style_handlers _parse _process_queue _scrape _slot _start_scheduled_request",
    "fastpath/stats.py": "_stats",
    "scheduling/engine.py": "_process_spidermw_output_async _slot _start",
    # What Scrapy's own download handlers and commands use.
    "download/client.py": "_make_ssl_context normalize_bind_address",
    "util/decompress.py": "zstd",
    "download/handler.py": "get_dataloss_msg",
    "download/receiver.py": "check_stop_download get_warnsize_msg",
    "commands/crawl.py": "_create_crawler",
}


def private_names(source: str) -> set[str]:
    """Names with one underscore that a source defines: methods, functions, attributes of self."""
    return set(re.findall(r"(?:\bdef |\bclass |\bself\.)(_[a-z]\w*)", source))


OF_SCRAPY = set().union(
    *(private_names(path.read_text(encoding="utf-8")) for path in SCRAPY.rglob("*.py"))
)


def inherited(path: Path, name: str) -> set[str]:
    """Private names of Scrapy's classes that a class of this module derives from."""
    module = ".".join(path.relative_to(CRAWLER.parent).with_suffix("").parts)
    bases = getattr(import_module(module), name).__mro__
    theirs = [base for base in bases if base.__module__.startswith("scrapy.")]
    return set().union(*(private_names(inspect.getsource(base)) for base in theirs))


def used(path: Path) -> set[str]:
    """Private names of Scrapy that a file imports, reads from objects, overrides or inherits."""
    source = path.read_text(encoding="utf-8")
    tree, own = ast.parse(source), private_names(source)
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scrapy."):
            is_private = "._" in (node.module or "")
            found |= {each.name for each in node.names if is_private or each.name[0] == "_"}
        elif isinstance(node, ast.Attribute) and node.attr in OF_SCRAPY:
            # A method may name the object that it makes: `robots = cls(); robots._opened`.
            of_own_class = isinstance(node.value, ast.Name) and node.attr in own
            if not of_own_class and ast.unparse(node.value) not in ("self", "cls"):
                found.add(node.attr)
        elif isinstance(node, ast.ClassDef) and node in tree.body:
            named = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
            named |= {each.name for each in node.body if isinstance(each, ast.AsyncFunctionDef)}
            named |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
            found |= named & inherited(path, node.name)
    return found


def test_private_parts_of_scrapy_are_listed_here() -> None:
    paths = sorted(CRAWLER.rglob("*.py"))
    found = {path.relative_to(CRAWLER).as_posix(): used(path) for path in paths}
    listed = {path: set(names.split()) for path, names in PRIVATE_PARTS.items()}
    assert {path: names for path, names in found.items() if names} == listed
