"""Measure how the crawl scales: `python -m benchmarks.scaling [--quick] [--json] [PART …]`."""

import sys

from benchmarks import command
from benchmarks.scaling import __doc__ as about
from benchmarks.scaling import big_host, connections, hosts, new_hosts, seeds, workers

PARTS = {
    "workers": workers.measure,
    "connections": connections.measure,
    "seeds": seeds.measure,
    "hosts": hosts.measure,
    "new_hosts": new_hosts.measure,
    "big_host": big_host.measure,
}

if __name__ == "__main__":
    sys.exit(command.run("benchmarks.scaling", about, PARTS))
