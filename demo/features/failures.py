"""Bad answers: missing pages, server errors with and without recovery, broken connections."""

from collections.abc import Iterator

from demo.features.site import Site
from demo.node import Behaviour, Node


def gone(site: Site) -> Iterator[Node]:
    """Links to pages that answer 404 and 410."""
    yield Node(site.host, "/lost/404", Behaviour.STATUS, status=404)
    yield Node(site.host, "/lost/410", Behaviour.STATUS, status=410)


def flaky(site: Site) -> Iterator[Node]:
    """Pages that fail once, ask for a second's patience, and then answer."""
    for status in (503, 429):
        yield site.page(
            f"/flaky/{status}",
            behaviour=Behaviour.STATUS,
            status=status,
            fails=1,
            retry_after="1",
        )


def resets(site: Site) -> Iterator[Node]:
    """A page whose first request is answered with a connection reset."""
    yield site.page("/reset/once", behaviour=Behaviour.RESET, fails=1)


def errors(site: Site) -> Iterator[Node]:
    """Pages that fail for ever, and pages that fail without saying when to come back."""
    for status in (500, 503, 429):
        yield Node(site.host, f"/error/{status}", Behaviour.STATUS, status=status)
        yield site.page(f"/recovers/{status}", behaviour=Behaviour.STATUS, status=status, fails=2)
    yield Node(site.host, "/error/waiting", Behaviour.STATUS, status=503, retry_after="2")
    yield Node(site.host, "/error/reset", Behaviour.RESET)


def retry_dates(site: Site) -> Iterator[Node]:
    """Retry-After as an HTTP date, two seconds ahead; and one that makes no sense."""
    for name, value in (("date", "+2"), ("nonsense", "soon")):
        yield site.page(
            f"/patience/{name}",
            behaviour=Behaviour.STATUS,
            status=503,
            fails=1,
            retry_after=value,
        )


def timeouts(site: Site) -> Iterator[Node]:
    """A page that never answers, and one that answers the second request."""
    yield Node(site.host, "/silent/always", Behaviour.TIMEOUT)
    yield site.page("/silent/once", behaviour=Behaviour.TIMEOUT, fails=1)
