"""The dashboard's page and files, read once from the package: no path of a request opens a file.

The package may be inside an egg, where Starlette's StaticFiles finds no files.
"""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import Response

from crawler.admin.security import STATIC

INDEX = "index.html"
_TYPES = (".html", ".css", ".js", ".svg", ".png", ".webmanifest")

router = APIRouter(include_in_schema=False)


@router.api_route("/", methods=["GET", "HEAD"])
async def page(request: Request) -> Response:
    """Serve the dashboard's page."""
    return await file(request, INDEX)


@router.api_route(STATIC + "{name}", methods=["GET", "HEAD"])
async def file(request: Request, name: str) -> Response:
    """Serve one of the dashboard's files."""
    if name not in _files():
        raise HTTPException(404, f"There is no file {name[:100]!r}.")
    body, media_type, etag = _files()[name]
    headers = {"ETag": etag}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)


@cache
def _files() -> dict[str, tuple[bytes, str, str]]:
    """Read all files: name -> body, media type, ETag."""
    found = {}
    for item in files("crawler.admin").joinpath("static").iterdir():
        if item.is_file() and item.name.endswith(_TYPES):
            body = item.read_bytes()
            media_type = mimetypes.guess_type(item.name)[0] or "application/octet-stream"
            found[item.name] = body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return found
