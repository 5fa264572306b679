"""Measurements, one question a file, peers side by side in the same run.

`python -m benchmarks.<name> [--quick] [--json]` answers one, `python -m benchmarks [--quick]` all.
"""
