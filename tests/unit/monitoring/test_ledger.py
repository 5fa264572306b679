"""What is said of processes that died."""

from crawler.monitoring.ledger import silent_line


def test_what_silent_processes_hold_is_told() -> None:
    found = {
        "a": {"held": 60, "silent_s": 12.0},
        "b": {"held": 4, "silent_s": 7.5},
        "c": {"held": 50, "silent_s": 1.0},
    }
    assert silent_line(found, 30.0) == (
        "URLs held by processes that do not answer (2): 64; they come back 30 s after the last "
        "sign of life (LEASE_TTL)"
    )


def test_of_those_that_beat_or_hold_nothing_nothing_is_said() -> None:
    assert silent_line({"a": {"held": 60, "silent_s": 1.0}, "b": {"silent_s": 99.0}}, 30.0) == ""
