"""How the crawl goes: counted by each process, added up for the fleet in Redis, shown and logged.

    process_stats  what one process counts: plain counters, nothing per page but sums
    figures        the table of figures: stat, metric, label; pure
    histogram      durations by size; pure
    ledger         the fleet's figures in Redis: written every two seconds, read by anybody
    estimate       when the crawl ends, where that can be told; pure
    sinks          the state of each sink and of the spool, over all processes
    report         figures as JSON, and the last minute as one line
    prometheus     all metrics, in the format of Prometheus
    console/       the live view, the plain lines and the summary of a run
    logs           log lines as text or JSON; secrets are hidden

Keys: `{<crawl>}:totals`, `{<crawl>}:minute:<n>` for the last two hours, and
`{<crawl>}:ten_minutes:<n>` for a day. Names of figures are a
closed list (monitoring/figures.py): no host and no text of the web is ever one. docs/metrics.md
describes the metrics.

Entry points: `process_stats.ProcessStats.of(crawler)`, `ledger.read`, `logs.install`.
Public: `logs.LogFormatter`, by LOG_FORMATTER in crawler/settings.py.
"""
