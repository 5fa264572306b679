"""A crawl in a real terminal that somebody stops by Ctrl-C."""

import codecs
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path
from threading import Thread

from demo.process import DemoServer
from demo.web import WebOptions
from tests.acceptance.crawls import ROOT, Crawls, environment
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

# The view of 100 columns, and more lines than it has.
WIDTH, HEIGHT = 100, 50


def test_ctrl_c_leaves_the_summary_and_no_stray_border(tmp_path: Path, redis_url: str) -> None:
    terminal = Terminal(WIDTH)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    with DemoServer(WebOptions(hosts=1, pages=3, zoo="none")) as web:
        command = Crawls(tmp_path, redis_url).command(
            "http://s0.test/", web=web, settings={"PROGRESS": "live", "CRAWL_IDLE": "wait"}
        )
        crawl = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, "-m", "scrapy", *command],
            cwd=ROOT,
            env={**environment(), "TERM": "xterm", "COLUMNS": str(WIDTH)},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        reader = Thread(target=show, args=(ours, terminal))
        reader.start()
        try:
            wait_until(lambda: re.search(r"[1-9] crawled", terminal.text), deadline_s=60)
            # The terminal echoes it, and interrupts the program.
            os.write(ours, b"\x03")
            assert crawl.wait(60) == 0, terminal.text
        finally:
            crawl.kill()
            crawl.wait()
            reader.join(60)
    assert "stopped by Ctrl-C" in terminal.text
    assert not set("╭╮╰╯│") & set(terminal.text), terminal.text


def show(master: int, terminal: Terminal) -> None:
    """Show what is written to a terminal until nobody has it open any more."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    # Linux answers with an error once the last program has closed its side.
    with suppress(OSError):
        while data := os.read(master, 65_536):
            terminal.feed(decoder.decode(data))
    os.close(master)
