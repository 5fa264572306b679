"""Errors as RFC 9457 problem JSON: one shape for every answer that is no success."""

from __future__ import annotations

import http
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from pymongo.errors import PyMongoError
from starlette.exceptions import HTTPException

from crawler.errors import CrawlerError, NotFound
from crawler.servers.redis.errors import RedisAway, RedisFull

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER_S = 2
# Of a wrong value and its place, in an answer.
_SHOWN = 200


class Mistake(BaseModel):
    """One thing that is wrong with a request."""

    where: str = Field(description="Part and name: body.urls.3, query.limit")
    detail: str


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[Mistake] = Field(default=[], description="Of a request that is not valid")


class ProblemError(Exception):
    """Raised by a route to answer with a problem."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail


def problem(
    status: int,
    detail: str,
    *,
    errors: list[Mistake] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """The answer that says it."""
    said = Problem(
        title=http.HTTPStatus(status).phrase, status=status, detail=detail, errors=errors or []
    )
    content = said.model_dump(exclude_defaults=not errors) | {"type": said.type}
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Let every error of the application be answered by a problem."""
    # Those of one class of handlers: the first class in an error's family that has one answers.
    app.add_exception_handler(ProblemError, _raised)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(CrawlerError, _told)
    app.add_exception_handler(PyMongoError, _mongo_away)
    for error in RedisAway:
        app.add_exception_handler(error, _redis_away)
    app.add_exception_handler(Exception, _unexpected)


async def _raised(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)
    return problem(error.status, error.detail)


async def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, str(error.detail), headers=error.headers)


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    mistakes = [_mistake(found) for found in error.errors()]
    detail = "; ".join(f"{mistake.where}: {mistake.detail}" for mistake in mistakes[:3])
    return problem(422, detail or "The request is not valid.", errors=mistakes[:20])


def _mistake(found: Any) -> Mistake:
    where = ".".join(str(part) for part in found["loc"])
    return Mistake(where=where[:_SHOWN], detail=str(found["msg"])[:_SHOWN])


async def _told(_request: Request, error: Exception) -> JSONResponse:
    """An error that is meant for people: a wrong value, or a crawl that is not there."""
    return problem(404 if isinstance(error, NotFound) else 422, str(error))


async def _redis_away(_request: Request, error: Exception) -> JSONResponse:
    logger.warning("Admin API: Redis does not answer: %s", error)
    wait = {"Retry-After": str(_RETRY_AFTER_S)}
    if isinstance(error, RedisFull):
        return problem(503, "Redis is full and takes nothing new: raise maxmemory.", headers=wait)
    return problem(503, "Redis does not answer; what it has is kept.", headers=wait)


async def _mongo_away(_request: Request, error: Exception) -> JSONResponse:
    logger.warning("Admin API: MongoDB does not answer: %s", error)
    wait = {"Retry-After": str(_RETRY_AFTER_S)}
    return problem(503, "MongoDB does not answer.", headers=wait)


async def _unexpected(_request: Request, _error: Exception) -> JSONResponse:
    # The server logs it with its traceback; whoever asked need not know our insides.
    return problem(500, "This is a mistake of the crawler; its log says more.")
