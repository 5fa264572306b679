"""`python -m demo`: serve the synthetic web, print its truth, judge a crawl, measure the server."""

import sys

from demo.cli import main

sys.exit(main())
