"""The dashboard's page and files, read once from the package: no path of a request opens a file."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.responses import Response

from crawler.admin.errors import ProblemError
from crawler.admin.security import STATIC

INDEX = "index.html"
_TYPES = {".html", ".css", ".js", ".svg", ".png", ".webmanifest"}

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class File:
    """One file as it is sent."""

    body: bytes
    media_type: str
    etag: str


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """The dashboard."""
    return _answer(request, INDEX)


@router.api_route(STATIC + "{name}", methods=["GET", "HEAD"])
async def file(request: Request, name: str) -> Response:
    """One of its files."""
    return _answer(request, name)


def _answer(request: Request, name: str) -> Response:
    found = _files().get(name)
    if found is None:
        raise ProblemError(404, f"There is no file {name[:100]!r}.")
    headers = {"ETag": found.etag}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers, media_type=found.media_type)


@cache
def _files() -> dict[str, File]:
    folder = files("crawler.admin").joinpath("static")
    if not folder.is_dir():
        return {}
    found = {}
    for item in folder.iterdir():
        if item.is_file() and any(item.name.endswith(ending) for ending in _TYPES):
            body = item.read_bytes()
            kind = mimetypes.guess_type(item.name)[0] or "application/octet-stream"
            digest = hashlib.sha256(body).hexdigest()[:32]
            found[item.name] = File(body, kind, f'"{digest}"')
    return found
