"""Pages that change on a known schedule: their version is the server's clock over the period.

One of them only shows the time, which is no change worth a visit.
"""

from collections.abc import Iterator

from demo.features.site import Site
from demo.node import Node


def changing(site: Site) -> Iterator[Node]:
    """One page for each period, from ten seconds to a day, and one with a clock."""
    for period_s in (10, 60, 3600, 86400):
        yield site.page(f"/live/every-{period_s}s", period_s=period_s)
    yield site.page("/live/clock", clock=True)
