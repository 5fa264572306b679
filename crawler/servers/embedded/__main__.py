"""`python -m crawler.servers.embedded remove FOLDER`: delete a crawl's data, if none uses it."""

import argparse
import sys
from pathlib import Path

from crawler.errors import CrawlerError
from crawler.servers.embedded.servers import EmbeddedServers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m crawler.servers.embedded", description=__doc__)
    parser.add_argument("verb", choices=["remove"])
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    try:
        EmbeddedServers(arguments.folder).remove()
    except CrawlerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
