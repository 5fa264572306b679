"""Measure the frontier: `python -m benchmarks.frontier [--quick] [--json] [PART …]`."""

import sys

from benchmarks import command
from benchmarks.frontier import __doc__ as about
from benchmarks.frontier import add, cycle, delayed, growth, idle, memory, politeness

PARTS = {
    "add": add.measure,
    "cycle": cycle.measure,
    "delayed": delayed.measure,
    "growth": growth.measure,
    "memory": memory.measure,
    "seen": memory.measure_seen,
    "idle": idle.measure,
    "politeness": politeness.measure,
}

if __name__ == "__main__":
    sys.exit(command.run("benchmarks.frontier", about, PARTS))
