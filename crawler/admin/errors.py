"""Problem JSON (RFC 9457): the one shape of every error answer."""

import http
import logging
from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from pymongo.errors import PyMongoError
from starlette.exceptions import HTTPException

from crawler.errors import CrawlerError, NotFound, ServerAway
from crawler.servers.redis.errors import RedisAway, RedisFull

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER_S = 2
# Characters shown of a wrong value, and of its place.
_SHOWN = 200


class Mistake(BaseModel):
    """Mistake in a request."""

    where: str = Field(description="Part and name: body.urls.3, query.limit")
    detail: str


class Problem(BaseModel):
    """Description of an error (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[Mistake] = Field(default=[], description="Mistakes in a request that is not valid")


def problem(
    status: int,
    detail: str,
    *,
    errors: list[Mistake] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Make an error answer."""
    body = Problem(
        title=http.HTTPStatus(status).phrase, status=status, detail=detail, errors=errors or []
    )
    content = body.model_dump(exclude_defaults=not errors) | {"type": body.type}
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every error of the application with a problem."""
    # Starlette logs errors that only the handler of Exception answers: name the expected ones.
    expected = (HTTPException, RequestValidationError, CrawlerError, PyMongoError, *RedisAway)
    for known in (*expected, Exception):
        app.add_exception_handler(known, _answer)


async def _answer(_request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, HTTPException):
        return problem(error.status_code, str(error.detail), headers=error.headers)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, ServerAway):
        return problem(503, str(error), headers={"Retry-After": str(_RETRY_AFTER_S)})
    if isinstance(error, CrawlerError):
        return problem(404 if isinstance(error, NotFound) else 422, str(error))
    if isinstance(error, RedisFull):
        return _away("Redis", error, "Redis is full and takes nothing new: raise maxmemory.")
    if isinstance(error, RedisAway):
        return _away("Redis", error, "Redis does not answer; its data is kept.")
    if isinstance(error, PyMongoError):
        return _away("MongoDB", error, "MongoDB does not answer.")
    # The server logs it with its traceback, which is not for clients.
    return problem(500, "This is a mistake of the crawler; its log says more.")


def _invalid(error: RequestValidationError) -> JSONResponse:
    mistakes = [
        Mistake(where=".".join(map(str, found["loc"]))[:_SHOWN], detail=str(found["msg"])[:_SHOWN])
        for found in error.errors()
    ]
    detail = "; ".join(f"{mistake.where}: {mistake.detail}" for mistake in mistakes[:3])
    return problem(422, detail or "The request is not valid.", errors=mistakes[:20])


def _away(server: str, error: Exception, text: str) -> JSONResponse:
    logger.warning("Admin API: %s does not answer: %s", server, error)
    return problem(503, text, headers={"Retry-After": str(_RETRY_AFTER_S)})
