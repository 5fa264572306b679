"""Import optional packages where they are used, and say which extra has one that is missing."""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from crawler.errors import ConfigurationError

# The name of this project's distribution, as pip installs it.
_DISTRIBUTION = "mercator-crawler"


def optional(module: str, *, extra: str, what: str) -> ModuleType:
    """Import a module of an optional package; ConfigurationError if it is not installed.

    `what` is the part of the crawler that needs it, as the user named it: "SINKS=warc".
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name.partition(".")[0]):
            raise
        raise ConfigurationError(_advice(module, extra, what)) from error


def missing(module: str, *, extra: str, what: str) -> str:
    """Return the same advice if a package is not installed, without importing it; else nothing."""
    return "" if find_spec(module) is not None else _advice(module, extra, what)


def _advice(module: str, extra: str, what: str) -> str:
    return (
        f"{what} needs the package {module.partition('.')[0]}, which is not installed: "
        f'pip install "{_DISTRIBUTION}[{extra}]" (in a clone: pip install -r '
        f"requirements-{extra}.txt)"
    )
