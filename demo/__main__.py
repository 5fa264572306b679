"""`python -m demo`: crawl the synthetic web, serve it, print its truth, judge a crawl, measure."""

import sys

from demo.cli import main

sys.exit(main())
