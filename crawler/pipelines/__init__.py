"""Item pipelines: duplicates, links, store, feeds; in this order."""
