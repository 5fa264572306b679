"""The errors of this project that are meant for its users."""


class CrawlerError(Exception):
    """An error whose text is meant for the user: it says what to do."""


class ConfigurationError(CrawlerError):
    """A setting, a file or a server that the crawl needs is missing or wrong."""


class NotFound(CrawlerError):
    """What was asked for is not there."""


class NotStored(CrawlerError):
    """An item has no place to go now, through no fault of its own: its URL costs no attempt."""
