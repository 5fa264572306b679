"""Change a web while it is served: hosts that turn hostile, and more addresses to listen at.

Commands are lines of JSON on standard input, each answered by a line:

    ["turn", "s3.test", "reset"]    every answer of the host is like that from now on
    ["turn", "s3.test", ""]         the host answers as before
    ["listen", "127.1.2.3", 80]     serve the same web at this address too
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Final, TextIO

from demo.answer import Answer, head
from demo.answers import Answering
from demo.features.bodies import HUGE_BYTES
from demo.node import Behaviour
from demo.validators import Validators

# Status in the access log of an answer of a host that has turned hostile.
HOSTILE_STATUS: Final = 600
# Seconds for a page of a slow loris: longer than any crawler waits.
_LORIS_S: Final = 600.0
_NOT_HTTP: Final = b"\x00\xff\xfeHTTP/9.9 -1 \r\r\n\n" + bytes(range(256)) * 8
_ROBOTS: Final = "/robots.txt"


class Turn(StrEnum):
    """What a hostile host does with every request."""

    RESET = "reset"
    SILENT = "silent"
    LORIS = "loris"
    ENDLESS = "endless"
    GARBAGE = "garbage"
    ERROR = "error"


def hostile_answer(turn: Turn, target: str) -> Answer:
    """Return what a hostile host answers."""
    if turn is Turn.ENDLESS and target == _ROBOTS:
        # Whatever has the status 200 is rules, and they would hold for longer than the host does.
        turn = Turn.ERROR
    if turn is Turn.RESET:
        return Answer(HOSTILE_STATUS, behaviour=Behaviour.RESET)
    if turn is Turn.SILENT:
        return Answer(HOSTILE_STATUS, behaviour=Behaviour.TIMEOUT)
    if turn is Turn.ENDLESS:
        return Answer(HOSTILE_STATUS, behaviour=Behaviour.HUGE)
    if turn is Turn.GARBAGE:
        return Answer(HOSTILE_STATUS, _NOT_HTTP, len(_NOT_HTTP))
    start = head(500, HUGE_BYTES if turn is Turn.LORIS else 0, {"Content-Type": "text/html"})
    if turn is Turn.LORIS:
        return Answer(HOSTILE_STATUS, start, 0, Behaviour.DRIP, delay_s=_LORIS_S)
    return Answer(HOSTILE_STATUS, start, len(start))


class HostileHosts:
    """Answers of a web, some of whose hosts have turned hostile."""

    def __init__(self, answers: Answering) -> None:
        self._answers = answers
        self._turns: dict[str, Turn] = {}

    def turn(self, host: str, how: str) -> None:
        """Let a host be hostile from now on, or answer as before; ValueError names a mistake."""
        if how:
            self._turns[host] = Turn(how)
        else:
            self._turns.pop(host, None)

    def answer(self, host: str, target: str, validators: Validators | None = None) -> Answer:
        """Answer a GET."""
        turn = self._turns.get(host)
        if turn is not None:
            return hostile_answer(turn, target)
        return self._answers.answer(host, target, validators)


async def obey(
    commands: TextIO, hostile: HostileHosts, listen: Callable[[str, int], Awaitable[None]]
) -> None:
    """Obey commands until they end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), commands)
    async for line in reader:
        error = ""
        try:
            name, *arguments = json.loads(line)
            if name == "turn":
                hostile.turn(*arguments)
            elif name == "listen":
                await listen(*arguments)
            else:
                error = f"{name!r} is no command; give one of turn, listen"
        except (OSError, TypeError, ValueError) as wrong:
            error = str(wrong)
        print(json.dumps({"error": error}), flush=True)
