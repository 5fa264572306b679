"""The access log writes what the judge reads."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.access_log import AccessLog, Entry, format_entry, now_s, parse_entry, read_log
from demo.judge import judge
from demo.truth import truth
from demo.web import WebOptions

ENTRY = Entry(1.5, 2.25, "s0.test", "/a?b=c", 503, "ok", 1.0, "127.0.0.1:5", "crawler/1.0 (x)")
TOKEN = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)


@given(TOKEN, TOKEN, st.integers(0, 599), st.integers(0, 2**40))
def test_a_line_gives_back_its_entry(host: str, target: str, status: int, micros: int) -> None:
    entry = Entry(micros / 1e6, micros / 1e6, host, target, status)
    assert parse_entry(format_entry(entry)) == entry


def test_a_log_is_appended_to_across_restarts(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    for _ in range(2):
        log = AccessLog(path)
        log.write(ENTRY)
        log.close()
    assert list(read_log(path)) == [ENTRY, ENTRY]


def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(format_entry(ENTRY) + format_entry(ENTRY)[:20])
    assert list(read_log(path)) == [ENTRY]


def test_a_line_that_is_no_entry_is_named(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text("hello\n")
    with pytest.raises(ValueError, match=r"access\.log, line 1: .* 9 columns, this one has 1\."):
        list(read_log(path))


def test_time_does_not_run_backwards() -> None:
    times = [now_s() for _ in range(100)]
    assert times == sorted(times)


def test_the_judge_reads_a_log_file(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_text(format_entry(ENTRY))
    verdict = judge(path, truth(WebOptions(hosts=1, pages=1, zoo="none")), min_delay_s=0.0)
    assert not verdict.ok
    assert verdict.summary()["violations"]["unknown"] == 1
    assert any(line.startswith("missing: 1") for line in verdict.lines())
