"""A response of which the connection takes away the end."""

import ssl

import pytest
from scrapy.http import Headers

from crawler.download.response_parser import ResponseParser, Truncated


class Body:
    """Receiver that wants everything."""

    def __init__(self) -> None:
        self.data = b""

    def head(self, status: int, version: str, headers: Headers, raw: bytes) -> bool:
        return True

    def body(self, data: bytes) -> bool:
        self.data += data
        return True


async def test_a_body_without_a_length_ends_with_its_connection() -> None:
    body = Body()
    parser = ResponseParser(body, only_head=False)
    parser.feed(b"HTTP/1.1 200 OK\r\n\r\nabc")
    parser.closed(None)
    await parser.done
    assert body.data == b"abc"


@pytest.mark.parametrize("error", [ConnectionResetError(), ssl.SSLError("bad record mac")])
async def test_a_broken_connection_is_no_end_of_a_body(error: OSError) -> None:
    parser = ResponseParser(Body(), only_head=False)
    parser.feed(b"HTTP/1.1 200 OK\r\n\r\nabc")
    parser.closed(error)
    with pytest.raises(Truncated) as truncated:
        await parser.done
    assert truncated.value.cause == Truncated.RESET
