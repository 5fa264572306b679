"""Storms: crawls of several real processes in which things fail, by a seed; and an audit of each.

`python -m chaos` starts the synthetic web (demo/), servers for the frontier and all sinks, and
crawlers. While they crawl, faults that a seed draws are done to them (chaos/faults/). Then the
crawl may end, and the auditor (chaos/audit.py) reads the web's access log, Redis, every sink and
all logs. docs/reliability.md says how to read its report. Not a part of the installed crawler.
"""
