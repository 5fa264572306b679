"""Make a small Scrapy project that uses the add-on: `scrapy startcrawl NAME`.

`template/` has its files. `$name`, `$Name`, `$host`, `$url` and `$source` in them are replaced
(`$$` is a dollar sign), and the folder `package` gets the project's name. They end in .tmpl, since
they are no code of this project.

Owns no keys. Imports nothing heavy: Scrapy loads the command in every project on the machine
(pyproject.toml, entry point scrapy.commands).
Public: `Command`, `create`.
"""

from __future__ import annotations

import argparse
import json
import keyword
import os
import shlex
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from string import Template
from urllib.parse import urlsplit
from urllib.request import url2pathname

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from crawler.errors import ConfigurationError, ExitCode

__all__ = ["Command", "create"]

_DISTRIBUTION = "mercator-crawler"
_URL = "https://example.com/"
# Characters that would end a string of Python, or a link.
_UNSAFE = frozenset('"\\<> ')
_NAME_MAX = 40
_SUFFIX = ".tmpl"
# Files whose names begin with a dot would be left out of packages.
_DOTTED = {"gitignore": ".gitignore", "dockerignore": ".dockerignore"}


class Command(ScrapyCommand):
    """Command that works without a project: it makes one."""

    requires_project = False
    requires_crawler_process = False

    def syntax(self) -> str:
        return "NAME [FOLDER] [--url URL]"

    def short_desc(self) -> str:
        return "Create a project with a spider of your own on this crawler"

    def long_desc(self) -> str:
        return (
            "Create a small Scrapy project: a spider, explained settings, a test and a compose "
            "file. It runs at once. FOLDER is where (./NAME)."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--url", default=_URL, help=f"the site that the spider begins with ({_URL})"
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) not in (1, 2):
            raise UsageError("give the name of the project: scrapy startcrawl shop")
        name, folder = args[0], Path(args[-1])
        try:
            create(name, folder, url=opts.url)
        except (ConfigurationError, OSError) as error:
            print(f"scrapy startcrawl: {error}", file=sys.stderr)
            self.exitcode = ExitCode.MISTAKE
            return
        print(f"Your project {name} is in {folder}. Next:\n")
        for command in next_commands(name, folder):
            print(f"    {command}")


def create(name: str, folder: Path, *, url: str = _URL) -> None:
    """Write the files of a project; raise ConfigurationError before anything is written."""
    check_name(name)
    parts = urlsplit(url)
    is_plain = url.isprintable() and not _UNSAFE & {*url}
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise ConfigurationError(
            f"--url is {url!r}; write it as https://example.com/, with %20 and %22 for blanks and "
            "quotes."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} exists and is not empty; name another folder.")
    values = {
        "name": name,
        "Name": "".join(map(str.capitalize, name.split("_"))),
        "host": parts.hostname,
        "url": url if parts.path else f"{url}/",
        "source": source() or "../crawler",
    }
    _render(files("crawler.project") / "template", folder, values)


def check_name(name: str) -> None:
    """Raise ConfigurationError unless a package of Python can have this name here."""
    is_plain = name.isascii() and name.isidentifier() and name == name.lower()
    if not is_plain or keyword.iskeyword(name) or name.startswith("_") or len(name) > _NAME_MAX:
        raise ConfigurationError(
            f"The name is {name!r}; use up to {_NAME_MAX} small letters, digits and underscores, "
            "the first one a letter."
        )
    if name == "tests" or find_spec(name) is not None:
        raise ConfigurationError(f"There is a Python package {name!r} already; use another name.")


def source() -> str:
    """Return the folder that this package is installed from; empty if it is not known."""
    root = Path(__file__).resolve().parents[2]
    if (root / "pyproject.toml").is_file():
        return str(root)
    with suppress(PackageNotFoundError):
        # pip notes there where it took the package from.
        noted = json.loads(distribution(_DISTRIBUTION).read_text("direct_url.json") or "{}")
        if noted.get("url", "").startswith("file://"):
            return url2pathname(urlsplit(noted["url"]).path)
    return ""


def next_commands(name: str, folder: Path) -> list[str]:
    """Return what to type next: into the folder, the packages that are missing, crawl and test."""
    commands = [f"cd {shlex.quote(str(folder))}"] if folder.resolve() != Path.cwd() else []
    try:
        distribution(_DISTRIBUTION)
    except PackageNotFoundError:
        packages = f"{source()}[embedded]"
        commands.append(f"{_program('pip')} install {shlex.quote(packages)}")
    scrapy = _program("scrapy")
    return [*commands, f"{scrapy} crawl {name} -O items.jsonl", f"{_program('python')} -m unittest"]


def _program(name: str) -> str:
    """Return how to call a program of this environment, by its path if it is not activated."""
    if "VIRTUAL_ENV" in os.environ or sys.prefix == sys.base_prefix:
        return name
    return shlex.quote(str(Path(sys.prefix, "bin", name)))


def _render(template: Traversable, target: Path, values: dict[str, str]) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for part in template.iterdir():
        if part.is_dir():
            folder = values["name"] if part.name == "package" else part.name
            _render(part, target / folder, values)
        elif part.name.endswith(_SUFFIX):
            name = part.name.removesuffix(_SUFFIX)
            text = Template(part.read_text(encoding="utf-8")).substitute(values)
            (target / _DOTTED.get(name, name)).write_text(text, encoding="utf-8")
