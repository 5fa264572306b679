"""The project's settings with the outside world replaced: names lead to the synthetic web."""

import json
import os

from crawler.settings import *  # noqa: F403

DNS_OVERRIDES = json.loads(os.environ["README_OVERRIDES"])
ALLOW_NETWORKS = ["127.0.0.0/8"]
DELAY_MIN = 0.02
DELAY_FACTOR = 1.0
if "README_DATABASE" in os.environ:
    MONGO_DATABASE = os.environ["README_DATABASE"]
