"""`python -m documentation.live_view`: write the picture of the live view, drawn by its own code.

The figures are those of a first crawl of the demo, a moment before it ends.
"""

import io
import re
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from crawler.frontier import Sizes
from crawler.monitoring.console.view import RunFigures, Snapshot, live_view

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "live-view.svg"
_WIDTH = 96
_RUN = RunFigures(
    elapsed_s=11,
    pages=2_100,
    failed={"status_404": 2, "status_410": 2},
    not_kept=89,
    duplicates_exact=8,
    duplicates_near=9,
    robots_denied=39,
    retries={"status_429": 2, "status_503": 2},
    in_flight=23,
    recent_s=150,
)
_CRAWL = replace(
    Sizes((0,) * 7, *[0] * 19),
    front=(0, 12, 41, 160, 48, 0, 0),
    back=434,
    leased=23,
    pages=2_100,
    hosts=22,
)
_SNAPSHOT = Snapshot("demo", _RUN, _CRAWL, processes=1, dashboard="http://127.0.0.1:8800/")
# Fonts of another site, for those who open the picture itself.
_FOREIGN = re.compile(r',\s*url\("https?://[^"]*"\) format\("[^"]*"\)')


def picture() -> str:
    """Draw the live view as SVG."""
    console = Console(file=io.StringIO(), width=_WIDTH, record=True, force_terminal=True)
    console.print(live_view(_SNAPSHOT))
    return _FOREIGN.sub("", console.export_svg(title="make crawl", unique_id="live-view"))


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
