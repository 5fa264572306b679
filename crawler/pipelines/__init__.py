"""Item pipelines: duplicates, links, store; in this order."""
