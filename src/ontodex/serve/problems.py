"""Every error as a problem document (RFC 9457): what is wrong, and what to do; never a traceback.

A library error becomes a status by the table `STATUS`; the routes raise `Problem` themselves.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from ontodex.errors import ConfigError, DataError, MissingExtraError, OntodexError, RunError
from ontodex.serve.database import ConflictError, UnknownRowError
from ontodex.serve.engine import BusyError, TooSlowError
from ontodex.serve.worker import LostError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
STATUS: dict[type[OntodexError], int] = {
    BusyError: 429,
    TooSlowError: 503,
    LostError: 503,
    UnknownRowError: 404,
    ConflictError: 409,
    DataError: 422,
    ConfigError: 422,
    RunError: 409,
    MissingExtraError: 501,
    OntodexError: 422,
}


class Problem(HTTPException):  # FastAPI lets these through while it reads a body
    """An answer that is not the one asked for."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        hint: str = "",
        errors: Sequence[Mapping[str, str]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.hint, self.errors = hint, errors

    def body(self) -> dict[str, Any]:
        """The problem document."""
        found: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
        }
        if self.hint:
            found["hint"] = self.hint
        if self.errors:
            found["errors"] = list(self.errors)
        return found

    def response(self) -> Response:
        text = json.dumps(self.body(), ensure_ascii=True)
        return Response(text, self.status_code, self.headers, MEDIA_TYPE)


def not_found(what: str, name: object) -> Problem:
    return Problem(404, f"there is no {what} {str(name)[:200]!r}")


def of_error(error: OntodexError) -> Problem:
    """The problem that a library error is; the message names no file of the server."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    message = str(error)
    if isinstance(error, DataError) and error.path is not None:
        message = message.replace(str(error.path), error.path.name)
    headers = (
        {"retry-after": str(error.retry_after)}
        if isinstance(error, BusyError | TooSlowError)
        else {}
    )
    return Problem(status, message, hint=error.hint, headers=headers)


def of_validation(error: RequestValidationError) -> Problem:
    """Which values are wrong; what was sent is not repeated, it may be a document."""
    found = [
        {"where": ".".join(map(str, item["loc"])), "message": str(item["msg"])}
        for item in error.errors()[:20]
    ]
    is_json = any(item["type"] == "json_invalid" for item in error.errors())
    detail = "the body is not JSON" if is_json else "a value is missing, wrong or out of range"
    return Problem(400 if is_json else 422, detail, errors=found)


def install(app: FastAPI) -> None:
    """Make every error of the app a problem document. Handlers are async: FastAPI would take a
    thread for each refusal otherwise."""

    async def library(_: Request, error: Exception) -> Response:
        assert isinstance(error, OntodexError)
        return of_error(error).response()

    async def validation(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return of_validation(error).response()

    async def http(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error, Problem):
            return error.response()
        return Problem(error.status_code, str(error.detail), headers=error.headers).response()

    async def database(_: Request, error: Exception) -> Response:
        logger.error("the database failed: %s", type(error).__name__)
        detail = "the database did not answer; nothing was written"
        return Problem(503, detail, headers={"retry-after": "5"}).response()

    async def bug(_: Request, error: Exception) -> Response:
        return Problem(500, "something went wrong here; the log says where").response()

    app.add_exception_handler(OntodexError, library)
    app.add_exception_handler(RequestValidationError, validation)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(SQLAlchemyError, database)
    app.add_exception_handler(Exception, bug)
