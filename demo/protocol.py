"""One connection to the synthetic web: HTTP/1.1 with keep-alive; pipelined requests take turns."""

import asyncio
import socket
import struct
from typing import Final, cast

from demo.access_log import AccessLog, Entry, now_s
from demo.answer import Answer, head, whole
from demo.answers import Answering
from demo.features.bodies import HUGE_BYTES
from demo.node import Behaviour
from demo.request import Request, parse_request

_HEAD_BYTES: Final = 64 * 1024
_CHUNK: Final = b"<p>" + b"So much to say. " * 4096 + b"</p>\n"
_DRIP_PIECES: Final = 50
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_IMMEDIATE: Final = frozenset({Behaviour.PAGE, Behaviour.TRUNCATED})


class Connection(asyncio.Protocol):
    """Reads requests and writes answers, one at a time, in the order of the requests."""

    def __init__(
        self,
        answers: Answering,
        log: AccessLog | None,
        latency_s: float,
        open_connections: "set[Connection]",
    ) -> None:
        self._answers = answers
        self._open = open_connections
        self._log = log
        self._latency_s = latency_s
        self._loop = asyncio.get_running_loop()
        self._input = b""
        self._skip_bytes = 0
        self._client = "-"
        self._transport: asyncio.Transport
        self._busy: tuple[Request, Answer, float] | None = None
        self._task: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self)
        peer = transport.get_extra_info("peername")
        self._client = f"{peer[0]}:{peer[1]}" if peer else "-"

    def drop(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        if self._busy is not None:
            request, answer, start_s = self._busy
            silent = answer.behaviour is Behaviour.TIMEOUT
            self._busy = None
            self._record(request, answer, start_s, "silent" if silent else "aborted")
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    def data_received(self, data: bytes) -> None:
        self._input = self._input + data if self._input else data
        if self._busy is None:
            self._serve()

    def _serve(self) -> None:
        while self._busy is None and not self._transport.is_closing():
            if self._skip_bytes:
                skipped = min(self._skip_bytes, len(self._input))
                self._input = self._input[skipped:]
                self._skip_bytes -= skipped
            end = self._input.find(b"\r\n\r\n")
            if end < 0:
                if len(self._input) > _HEAD_BYTES:
                    self._refuse(431)
                return
            request = parse_request(self._input[:end])
            self._input = self._input[end + 4 :]
            if request is None:
                self._refuse(400)
                return
            self._skip_bytes = request.body_bytes
            self._answer(request)

    def _refuse(self, status: int) -> None:
        self._transport.write(head(status, 0, {"Connection": "close"}))
        self._transport.close()

    def _answer(self, request: Request) -> None:
        start_s = now_s()
        if request.method not in {"GET", "HEAD"}:
            answer = whole(405, b"", {"Allow": "GET, HEAD"})
        else:
            answer = self._answers.answer(request.host, request.target, request.validators)
        self._busy = (request, answer, start_s)
        if answer.behaviour is Behaviour.TIMEOUT:
            return
        if answer.behaviour is Behaviour.RESET:
            self._reset()
        elif answer.behaviour in _IMMEDIATE and not (answer.delay_s or self._latency_s):
            self._finish()
        else:
            self._task = self._loop.create_task(self._slowly(request, answer))

    def _reset(self) -> None:
        # Linger 0 makes the kernel send RST instead of FIN.
        self._transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
        )
        self._settle("reset")
        self._transport.abort()

    def _finish(self) -> None:
        assert self._busy is not None
        request, answer, _ = self._busy
        # Noted before it is sent: on a busy machine the client may have it long before we go on.
        end_s = now_s()
        if request.method == "HEAD":
            self._transport.write(answer.wire[: answer.head_bytes])
        elif answer.behaviour is Behaviour.TRUNCATED:
            body = len(answer.wire) - answer.head_bytes
            self._transport.write(answer.wire[: answer.head_bytes + body // 2])
            self._transport.close()
        else:
            self._transport.write(answer.wire)
        self._settle("truncated" if answer.behaviour is Behaviour.TRUNCATED else "ok", end_s)

    async def _slowly(self, request: Request, answer: Answer) -> None:
        if answer.behaviour is Behaviour.HUGE:
            await self._stream()
        elif answer.behaviour is Behaviour.DRIP and request.method != "HEAD":
            await self._drip(answer)
        else:
            await asyncio.sleep(answer.delay_s + self._latency_s)
            self._finish()
        self._task = None
        self._serve()

    async def _stream(self) -> None:
        pieces = HUGE_BYTES // len(_CHUNK)
        fields = {"Content-Type": "text/html; charset=utf-8"}
        self._transport.write(head(200, pieces * len(_CHUNK), fields))
        for _ in range(pieces):
            self._transport.write(_CHUNK)
            await self._may_write.wait()
        self._settle("ok")

    async def _drip(self, answer: Answer) -> None:
        size = len(answer.wire) // _DRIP_PIECES + 1
        for at in range(0, len(answer.wire), size):
            if at:
                # Not after the last piece: the client has all of it then.
                await asyncio.sleep(answer.delay_s / _DRIP_PIECES)
            end_s = now_s()
            self._transport.write(answer.wire[at : at + size])
        self._settle("ok", end_s)

    def _settle(self, outcome: str, end_s: float | None = None) -> None:
        assert self._busy is not None
        request, answer, start_s = self._busy
        self._busy = None
        self._record(request, answer, start_s, outcome, end_s)
        if not request.keep_alive:
            self._transport.close()

    def _record(
        self,
        request: Request,
        answer: Answer,
        start_s: float,
        outcome: str,
        end_s: float | None = None,
    ) -> None:
        if self._log is not None:
            self._log.write(
                Entry(
                    start_s,
                    now_s() if end_s is None else end_s,
                    request.host,
                    request.target,
                    answer.status,
                    outcome,
                    answer.retry_after_s,
                    self._client,
                    request.agent,
                )
            )
