"""The format of REST errors: problem documents (RFC 9457), with what is wrong and what to do.

`STATUS` maps library errors to HTTP statuses; routes raise `Problem` themselves. No answer contains
a traceback.
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
from ontodex.io.temporary import is_disk_full
from ontodex.serve.database.stored_rows import DamagedRowError
from ontodex.serve.database.tables import ConflictError, UnknownRowError
from ontodex.serve.prediction.batcher import AnswerTimeoutError, QueueFullError, RetiredRunError
from ontodex.serve.prediction.model_process import ModelProcessDiedError

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 20  # invalid values that one answer lists
STATUS: dict[type[OntodexError], int] = {
    QueueFullError: 429,
    AnswerTimeoutError: 503,
    ModelProcessDiedError: 503,
    RetiredRunError: 503,
    UnknownRowError: 404,
    ConflictError: 409,
    DamagedRowError: 409,
    DataError: 422,
    ConfigError: 422,
    RunError: 409,
    MissingExtraError: 501,
    OntodexError: 422,
}


class Problem(HTTPException):  # FastAPI passes these on while it reads a body
    """An error answer."""

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

    def to_dict(self) -> dict[str, Any]:
        """Return the problem document."""
        document: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
        }
        if self.hint:
            document["hint"] = self.hint
        if self.errors:
            document["errors"] = list(self.errors)
        return document

    def to_response(self) -> Response:
        text = json.dumps(self.to_dict(), ensure_ascii=True)
        return Response(text, self.status_code, self.headers, MEDIA_TYPE)


def report_full_disk() -> Problem:
    """Log that a disk of the service is full, and return the problem for the client."""
    logger.error("the disk for temporary files is full")
    return Problem(
        503, "a disk of the service is full", hint="send it later", headers={"retry-after": "60"}
    )


def make_not_found(kind: str, name: object) -> Problem:
    return Problem(404, f"there is no {kind} {str(name)[:200]!r}")


def convert_error(error: OntodexError) -> Problem:
    """Return the problem of a library error; its message contains no path of the server."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    message = str(error)
    if isinstance(error, DataError) and error.path is not None:
        message = message.replace(str(error.path), error.path.name)
    headers = (
        {"retry-after": str(error.retry_after)}
        if isinstance(error, QueueFullError | AnswerTimeoutError)
        else {}
    )
    return Problem(status, message, hint=error.hint, headers=headers)


def convert_validation_error(error: RequestValidationError) -> Problem:
    """Return a problem that lists the invalid values by place. The values themselves are not
    repeated: they may be documents."""
    invalid = [
        {"location": ".".join(map(str, item["loc"])), "message": str(item["msg"])}
        for item in error.errors()[:MAX_ERRORS]
    ]
    is_json = all(item["type"] != "json_invalid" for item in error.errors())
    detail = "a value is missing, wrong or out of range" if is_json else "the body is not JSON"
    return Problem(422 if is_json else 400, detail, errors=invalid)


def install_handlers(app: FastAPI) -> None:
    """Answer every error of the app with a problem document.

    The handlers are async, because FastAPI runs others in a thread each.
    """

    async def handle_library_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, OntodexError)
        return convert_error(error).to_response()

    async def handle_validation_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return convert_validation_error(error).to_response()

    async def handle_http_error(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if isinstance(error, Problem):
            return error.to_response()
        return Problem(error.status_code, str(error.detail), headers=error.headers).to_response()

    async def handle_database_error(_: Request, error: Exception) -> Response:
        logger.error("the database failed: %s", type(error).__name__)
        # A connection that breaks during the commit leaves it unknown whether it was written.
        hint = "send it again; a decision with the same request_id is written once"
        problem = Problem(
            503, "the database did not answer", hint=hint, headers={"retry-after": "5"}
        )
        return problem.to_response()

    async def handle_system_error(_: Request, error: Exception) -> Response:
        if not is_disk_full(error):
            raise error
        return report_full_disk().to_response()

    async def handle_bug(_: Request, error: Exception) -> Response:
        return Problem(500, "an error in the service; its log has the details").to_response()

    app.add_exception_handler(OntodexError, handle_library_error)
    app.add_exception_handler(RequestValidationError, handle_validation_error)
    app.add_exception_handler(HTTPException, handle_http_error)
    app.add_exception_handler(SQLAlchemyError, handle_database_error)
    app.add_exception_handler(OSError, handle_system_error)
    app.add_exception_handler(Exception, handle_bug)
