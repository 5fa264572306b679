"""Print how many statements of each package a test run executed, from coverage's JSON report.

Processes that tests start are not measured, so commands and extensions are tested more than shown.
"""

import json
import sys
from collections import Counter
from pathlib import Path


def table(report: dict[str, dict[str, dict[str, dict[str, int]]]]) -> list[str]:
    """Return a line for each package, the least covered first, and one for all of them."""
    statements: Counter[str] = Counter()
    executed: Counter[str] = Counter()
    for path, file in report["files"].items():
        # crawler/frontier/outbox.py is of `frontier`, crawler/scheduler.py of `scheduler`.
        for package in (path.split("/")[1].removesuffix(".py"), "all"):
            statements[package] += file["summary"]["num_statements"]
            executed[package] += file["summary"]["covered_lines"]
    shares = {name: 100 * executed[name] / number for name, number in statements.items() if number}
    lines = sorted((share, name) for name, share in shares.items() if name != "all")
    return [f"{name:<12} {share:5.1f}%" for share, name in [*lines, (shares["all"], "all")]]


if __name__ == "__main__":
    print("Coverage, without the processes that tests start")
    print("\n".join(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))))
