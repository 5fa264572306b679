"""Fuzzing: bytes that somebody else chose, given to everything that reads such bytes.

    target    what a target is, and how one input is run within its bounds
    urls, parsing, http, records, admin
              the targets, by what they read
    targets   the table of all of them
    engine    runs one target under atheris, in a process of its own
    results   what runs found, and the table of docs/reliability.md
    cases/    inputs that broke a target once, by target; ordinary tests run them

`python -m fuzzing run` (`make fuzz MINUTES=…`) looks for new ones. Only it needs atheris.
"""
