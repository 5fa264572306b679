"""Compare a crawl's own counts with the truth. Pure."""

from collections.abc import Sequence
from typing import Any

from demo.truth import Truth


def differences(
    truth: Truth, runs: Sequence[dict[str, Any]], whole_crawl: dict[str, Any], *, exact: bool
) -> list[str]:
    """Return a line for each count that is not as it should be.

    `runs` has {"started": true} and {"ended": counts} for each run, in order; a run that was killed
    did not write the second, so that its counts are lost and stored pages cannot be added up.
    `exact` is False for webs with traps, in which a crawl may store more than it must.
    """
    found = []
    pages = sum(
        status == 200 and url not in truth.sitemaps for url, status in truth.statuses.items()
    )
    if exact and whole_crawl["pages"] != pages:
        found.append(f"pages: the crawl counts {whole_crawl['pages']:,}, the web has {pages:,}")
    ended = [run["ended"] for run in runs if "ended" in run]
    if len(ended) == sum("started" in run for run in runs):
        # Runs of version 1 of the summary called them pages.
        stored = sum(run.get("stored", run.get("pages", 0)) for run in ended)
        duplicates = sum(run["duplicates_exact"] + run["duplicates_near"] for run in ended)
        due = len(truth.must_store)
        if stored + duplicates < due or (exact and stored + duplicates > due):
            sum_of = f"{stored:,} stored + {duplicates:,} duplicates"
            found.append(f"stored: the crawl counts {sum_of}, the web has {due:,} pages to store")
        copies = sum(len(group) - 1 for group in truth.exact_groups + truth.near_groups)
        if exact and duplicates > copies:
            found.append(f"duplicates: the crawl counts {duplicates:,}, the web has {copies:,}")
    return found
