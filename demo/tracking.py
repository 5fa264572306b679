"""Drop the tracking parameters from a path with query. Pure.

A few links carry `utm_source=`. The crawler fetches them as they are written, and knows them by
their canonical URLs, without utm_* parameters. So has the truth them; the server ignores them.
"""


def without_tracking(target: str) -> str:
    """Return the target without utm_* parameters; other parameters keep their order."""
    if "utm_" not in target:
        return target
    path, mark, query = target.partition("?")
    kept = [pair for pair in query.split("&") if not pair.startswith("utm_")]
    return path + mark + "&".join(kept) if kept else path
