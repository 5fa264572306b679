"""Measure duplicates: `python -m benchmarks.content [--quick] [--json] [PART …]`."""

import sys

from benchmarks import command
from benchmarks.content import __doc__ as about
from benchmarks.content import index, likeness, simhash

PARTS = {
    "simhash": simhash.measure,
    "likeness": likeness.measure,
    "index": index.measure,
}

if __name__ == "__main__":
    sys.exit(command.run("benchmarks.content", about, PARTS))
