"""What the design's report had measured on its own prototype. Of its machine nothing is known."""

from __future__ import annotations

WORKERS = 7
WORKERS_PAGES_PER_S = 0.6
SEEN_SAVED = 0.97
INSERT_MS = 84.0
BATCH_MS = 240.0
FIND_MS = 0.91
