"""The lines of the log: text for people, or with LOG_JSON one JSON object each. Secrets are hidden.

Takes the place of Scrapy's own root handler and obeys the same settings (LOG_FILE, LOG_LEVEL,
LOG_FORMAT …). Scrapy makes its handler anew several times, each time with a formatter of its own.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from crawler.errors import ConfigurationError
from crawler.masking import Mask, secrets_of

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

# Characters of a message and of a traceback: a line must fit into whatever reads it.
MESSAGE_MAX = 8000
_CUT = " … (cut)"
# What a line may tell besides its text: logger.info(…, extra={"figures": {…}}).
FIGURES = "figures"

_installed: logging.Handler | None = None


class TextFormatter(logging.Formatter):
    """Scrapy's lines, with secrets hidden."""

    def __init__(self, mask: Mask, form: str | None = None, dates: str | None = None) -> None:
        super().__init__(form, dates)
        self._mask = mask

    def format(self, record: logging.LogRecord) -> str:
        return self._mask(super().format(record))


class JsonFormatter(logging.Formatter):
    """One object a line: at, level, logger, message, pid; and error and figures where there are."""

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
            "message": self._text(record.getMessage()),
        }
        if record.exc_info:
            line["error"] = self._text(self.formatException(record.exc_info))
        figures = getattr(record, FIGURES, None)
        if isinstance(figures, dict):
            line[FIGURES] = figures
        return json.dumps(line, ensure_ascii=False, default=str)

    def _text(self, text: str) -> str:
        if len(text) > MESSAGE_MAX:
            text = text[:MESSAGE_MAX] + _CUT
        return self._mask(text)


def install(settings: BaseSettings) -> logging.Handler:
    """Log as the settings say, from now on; a later call replaces an earlier one."""
    global _installed  # noqa: PLW0603 - like the root logger, there is one in a process
    uninstall()
    settings.set("LOG_INSTALL_ROOT_HANDLER", False, priority="cmdline")
    level = _level(settings["LOG_LEVEL"])
    _installed = _handler(settings)
    _installed.setFormatter(_formatter(settings))
    _installed.setLevel(level)
    logging.root.setLevel(logging.NOTSET)
    logging.root.addHandler(_installed)
    return _installed


def uninstall() -> None:
    """Log no more."""
    global _installed  # noqa: PLW0603
    if _installed is not None:
        logging.root.removeHandler(_installed)
        _installed.close()
        _installed = None


def root_handler() -> logging.Handler | None:
    """The handler that was installed, if one was."""
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
            return logging.FileHandler(file, mode=mode, encoding=settings["LOG_ENCODING"])
        except OSError as error:
            raise ConfigurationError(
                f"LOG_FILE {file!r} cannot be written ({error.strerror}); name another file."
            ) from error
    return logging.StreamHandler() if settings.getbool("LOG_ENABLED") else logging.NullHandler()


def _formatter(settings: BaseSettings) -> logging.Formatter:
    mask = Mask(
        [
            settings["ADMIN_TOKEN"],
            *secrets_of(settings["REDIS_URL"]),
            *secrets_of(settings["MONGO_URI"]),
        ]
    )
    if settings.getbool("LOG_JSON"):
        return JsonFormatter(mask)
    return TextFormatter(mask, settings["LOG_FORMAT"], settings["LOG_DATEFORMAT"])
