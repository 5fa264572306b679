"""Lines of the log: text for people, or with LOG_JSON one JSON object each. Secrets are hidden.

`install` replaces Scrapy's root handler and follows the same settings (LOG_FILE, LOG_LEVEL,
LOG_FORMAT …): Scrapy creates its handler several times, each time with its own formatter.
Lines about single URLs and Scrapy's listings of settings are at DEBUG.

With LOG_JSON, warnings and uncaught exceptions are lines of the log too, and texts that are printed
to standard error (errors, the summary) have the same form: see `line`.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from scrapy import logformatter

from crawler import settings as ours
from crawler.errors import ConfigurationError, NotStored
from crawler.util.secrets import Mask, url_passwords, without_secrets

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)
_ENGINE = logging.getLogger("scrapy.core.engine")

# Characters of a message and of a traceback: programs that read the log limit its lines.
MESSAGE_MAX = 8000
_CUT = " … (cut)"
_SERVERS = ("REDIS_URL", "MONGO_URI", "SINKS")
_SECRETS = ("ADMIN_TOKEN", "ELASTICSEARCH_API_KEY")
# Attribute of a record with numbers for programs: logger.info(…, extra={"figures": {…}}).
FIGURES = "figures"
# Loggers and beginnings of Scrapy's listings. The same loggers have lines that are wanted.
_LISTING_LOGGERS = ("scrapy.addons", "scrapy.crawler", "scrapy.middleware")
_LISTINGS = ("Enabled ", "Overridden settings")

# Line breaks to str.splitlines() that JSON does not escape.
_BREAKS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"})

_installed: logging.Handler | None = None
# Python's hooks for uncaught exceptions, while ours replace them.
_hooks_before: tuple[Any, Any, Any] | None = None


class TextFormatter(logging.Formatter):
    """Lines in Scrapy's format, with secrets hidden."""

    def __init__(self, mask: Mask, form: str | None = None, dates: str | None = None) -> None:
        super().__init__(form, dates)
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return self._mask(super().format(record))


class JsonFormatter(logging.Formatter):
    """Lines with one object each: at, level, logger, pid, message; error and figures if any."""

    def __init__(self, mask: Mask) -> None:
        super().__init__()
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "pid": record.process,
            "message": self._text(_message(record)),
        }
        if record.exc_info:
            line["error"] = self._text(self.formatException(record.exc_info))
        figures = getattr(record, FIGURES, None)
        if isinstance(figures, dict):
            line[FIGURES] = figures
        return json.dumps(line, ensure_ascii=False, default=str).translate(_BREAKS)

    def _text(self, text: str) -> str:
        if len(text) > MESSAGE_MAX:
            text = text[:MESSAGE_MAX] + _CUT
        return self._mask(text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - wrong arguments: logging would print a traceback
        return f"{record.msg} {record.args!r}"


def install(settings: BaseSettings) -> logging.Handler:
    """Log as the settings say from now on, and return the handler; replaces an earlier one."""
    # There is one handler in a process, like the root logger.
    global _installed, _hooks_before  # noqa: PLW0603
    uninstall()
    settings.set("LOG_INSTALL_ROOT_HANDLER", False, priority="cmdline")
    level = _level(settings["LOG_LEVEL"])
    _installed = _handler(settings)
    _installed.setFormatter(_formatter(settings))
    _installed.setLevel(level)
    logging.root.setLevel(logging.NOTSET)
    logging.root.addHandler(_installed)
    if is_json():
        logging.captureWarnings(True)
        _hooks_before = (sys.excepthook, sys.unraisablehook, threading.excepthook)
        sys.excepthook, sys.unraisablehook = _uncaught, _unraisable
        threading.excepthook = _uncaught_in_thread
    return _installed


def uninstall() -> None:
    """Remove the handler and the hooks of `install`."""
    global _installed, _hooks_before  # noqa: PLW0603
    if _hooks_before is not None:
        sys.excepthook, sys.unraisablehook, threading.excepthook = _hooks_before
        logging.captureWarnings(False)
        _hooks_before = None
    if _installed is not None:
        logging.root.removeHandler(_installed)
        _installed.close()
        _installed = None


def is_json() -> bool:
    """Return whether each line of this process is JSON."""
    return _installed is not None and isinstance(_installed.formatter, JsonFormatter)


def line(text: str, *, level: int = logging.INFO, figures: dict[str, Any] | None = None) -> str:
    """Return a text for standard error, with LOG_JSON as a line of the log; secrets are hidden."""
    if not is_json():
        return without_secrets(text)
    assert _installed is not None
    record = logger.makeRecord(
        *(logger.name, level, __file__, 0, text, (), None),
        extra=None if figures is None else {FIGURES: figures},
    )
    return _installed.format(record)


def parse_message(text: str) -> str:
    """Return the message of a line in JSON; any other line as it is."""
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text


def _uncaught(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write(line("stopped by Ctrl-C") + "\n")
    else:
        logger.critical("An error ended the process", exc_info=(kind, error, traceback))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        about = (args.exc_type, args.exc_value, args.exc_traceback)
        logger.error("An error ended a thread", exc_info=about)


def _unraisable(args: sys.UnraisableHookArgs) -> None:
    if args.exc_value is not None:
        about = (args.exc_type, args.exc_value, args.exc_traceback)
        what = args.err_msg or "An error was ignored in"
        logger.error("%s: %r", what, args.object, exc_info=about)


def hide_listings() -> None:
    """Leave out Scrapy's listings of settings and components, unless the log is at DEBUG."""
    if _installed is not None and _installed.level > logging.DEBUG:
        _installed.addFilter(_is_no_listing)


def _is_no_listing(record: logging.LogRecord) -> bool:
    return (
        record.levelno != logging.INFO
        or record.name not in _LISTING_LOGGERS
        or not str(record.msg).startswith(_LISTINGS)
    )


def root_handler() -> logging.Handler | None:
    """Return the handler that was installed, if any."""
    return _installed


def _level(given: Any) -> int:
    levels = logging.getLevelNamesMapping()
    text = str(given)
    if text in levels:
        return levels[text]
    if text.isdecimal():
        return int(text)
    raise ConfigurationError(
        f"LOG_LEVEL (-L) is {given!r}; use one of DEBUG, INFO, WARNING, ERROR, CRITICAL."
    )


def _handler(settings: BaseSettings) -> logging.Handler:
    file = settings["LOG_FILE"]
    if file:
        mode = "a" if settings.getbool("LOG_FILE_APPEND") else "w"
        try:
            # Escape what the encoding lacks: else logging prints a traceback.
            encoding, errors = settings["LOG_ENCODING"], "backslashreplace"
            return logging.FileHandler(file, mode=mode, encoding=encoding, errors=errors)
        except OSError as error:
            raise ConfigurationError(
                f"LOG_FILE {file!r} cannot be written ({error.strerror}); name another file."
            ) from error
    return logging.StreamHandler() if settings.getbool("LOG_ENABLED") else logging.NullHandler()


def mask_of(settings: BaseSettings) -> Mask:
    """Return the mask that hides the secrets of these settings."""
    servers = " ".join(str(settings[name] or "") for name in _SERVERS)
    secrets = [settings[name] for name in _SECRETS]
    return Mask([*secrets, *url_passwords(servers)])


def _formatter(settings: BaseSettings) -> logging.Formatter:
    mask = mask_of(settings)
    # Projects with the add-on take the environment's from our settings; their own come first.
    if settings.getbool("LOG_JSON", ours.LOG_JSON):
        return JsonFormatter(mask)
    return TextFormatter(mask, settings["LOG_FORMAT"], settings["LOG_DATEFORMAT"])


class LogFormatter(logformatter.LogFormatter):
    """Scrapy's lines about single URLs, at DEBUG."""

    def crawled(self, *args: Any, **kwargs: Any) -> Any:
        """Return nothing if no handler takes the line: making it costs 30 µs."""
        return super().crawled(*args, **kwargs) if _is_taken(_ENGINE, logging.DEBUG) else None

    def scraped(self, *args: Any, **kwargs: Any) -> Any:
        """Return nothing: the page was logged when it was fetched, and an item costs more."""
        return None

    def dropped(self, *args: Any, **kwargs: Any) -> Any:
        return self._quiet(super().dropped(*args, **kwargs))

    def item_error(self, item: Any, exception: Any, *args: Any, **kwargs: Any) -> Any:
        record = super().item_error(item, exception, *args, **kwargs)
        # The store logs once that it takes nothing, not for each item.
        return self._quiet(record) if isinstance(exception, NotStored) else record

    def spider_error(self, failure: Any, *args: Any, **kwargs: Any) -> Any:
        record = super().spider_error(failure, *args, **kwargs)
        # The crawl ends, and the URL is handed back.
        return self._quiet(record) if isinstance(failure.value, NotStored) else record

    def download_error(self, *args: Any, **kwargs: Any) -> Any:
        return self._quiet(super().download_error(*args, **kwargs))

    @staticmethod
    def _quiet(record: Any) -> Any:
        record["level"] = logging.DEBUG
        return record


def _is_taken(logger: logging.Logger, level: int) -> bool:
    """Does any handler take lines of this level? Scrapy's loggers let all of them pass."""
    at: logging.Logger | None = logger if logger.isEnabledFor(level) else None
    while at is not None:
        if any(handler.level <= level for handler in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False
