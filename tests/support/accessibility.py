"""Accessibility of a page in a real browser, judged by axe-core.

axe/axe.min.js is the file of the npm package axe-core 4.14.1 (Mozilla Public License 2.0,
https://github.com/dequelabs/axe-core), unchanged. It is for tests only.
"""

from pathlib import Path
from typing import Any

AXE = Path(__file__).parent / "axe" / "axe.min.js"
_SERIOUS = ("serious", "critical")


def serious_findings(page: Any) -> list[str]:
    """What is seriously wrong with a page as it is now: rule, element and how to mend it."""
    # Evaluated, not added as a script: the policy of the page would refuse that.
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{violation['id']}: {node['target']}: {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in _SERIOUS
        for node in violation["nodes"]
    ]
