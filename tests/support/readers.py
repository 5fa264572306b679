"""Readers of documents as users write them, well and badly. They run in worker processes."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from crawler.parsing.document import Document, Unreadable


def title(body: bytes, url: str) -> dict[str, Any]:
    """Read a title and links, one a line."""
    first, *links = body.decode().splitlines() or [""]
    return {"title": first, "text": f"at {url}", "links": links}


def document(body: bytes, url: str) -> Document:
    text = body.decode()
    return Document(title=text, text=text, media_type="application/x-other")


def of_one_argument(body: bytes) -> dict[str, Any]:
    return {"text": body.decode()}


def unread(body: bytes, url: str) -> dict[str, Any]:
    raise Unreadable(body.decode())


def broken(body: bytes, url: str) -> dict[str, Any]:
    raise KeyError(body.decode())


def misspelt(body: bytes, url: str) -> dict[str, Any]:
    return {"titel": "T"}


def nothing(body: bytes, url: str) -> None:
    return None


def endless(body: bytes, url: str) -> dict[str, Any]:
    while True:
        pass


def crash(body: bytes, url: str) -> dict[str, Any]:
    ctypes.string_at(0)
    return {}


def aborted(body: bytes, url: str) -> dict[str, Any]:
    """End as native libraries do that get no memory."""
    os.abort()


def killed(body: bytes, url: str) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def stopped(body: bytes, url: str) -> dict[str, Any]:
    """Get the signals that a supervisor sends to all processes of a service."""
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    child = subprocess.run(["/bin/sh", "-c", "kill -TERM $$"], check=False)
    return {"title": str(child.returncode)}


def ended(body: bytes, url: str) -> dict[str, Any]:
    os._exit(0)


def greedy(body: bytes, url: str) -> dict[str, Any]:
    return {"text": "x" * 10**9}


def fat(body: bytes, url: str) -> dict[str, Any]:
    """Use more memory than a worker that goes on may have used, and little of it in the end."""
    return {"title": str(len(bytearray(b"x") * 250_000_000))}


def printing(body: bytes, url: str) -> dict[str, Any]:
    sys.stdout.write("printed")
    sys.stdout.flush()
    os.write(1, b"printed")
    return {"title": "printed"}


def garbage(body: bytes, url: str) -> dict[str, Any]:
    """Write what is no answer where the answer belongs, as code that was taken over may."""
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, body)
        except OSError:
            continue
    return {}


def large(body: bytes, url: str) -> dict[str, Any]:
    return {"text": "ä" * int(body)}


def who(body: bytes, url: str) -> dict[str, Any]:
    """Tell what this process is, and has."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {
        "title": str(os.getpid()),
        "description": str(os.nice(0)),
        "headings": sorted(os.environ),
        "links": sorted(map(str, Path("/proc/self/fd").iterdir())),
        "text": status,
    }


def tried(body: bytes, url: str) -> dict[str, Any]:
    """Try what a reader has no need of."""
    tries = {
        "write": lambda: Path(url).write_bytes(b"x"),
        "start": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "socket": lambda: [socket.socket() for _ in range(100)],
    }
    done = []
    for name, work in tries.items():
        try:
            work()
        except OSError:
            continue
        done.append(name)
    return {"headings": done}
