"""Routes whose JSON bodies pass the limits before any schema sees them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from ontodex.errors import DataError
from ontodex.io.temporary import is_disk_full
from ontodex.serve.http.json_limits import parse_body
from ontodex.serve.http.problems import Problem, report_full_disk


class _BoundedRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            try:
                self._json = parse_body(await self.body())
            except DataError as error:
                raise Problem(422, f"the body is beyond the limits: {error}") from error
        return self._json


class BoundedRoute(APIRoute):
    """A route whose JSON body is parsed by `parse_body`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_bounded(request: Request) -> Response:
            try:
                return await handle(_BoundedRequest(request.scope, request.receive))
            except HTTPException as error:
                # FastAPI takes any error while it reads a form for a mistake of the client.
                if is_disk_full(error.__cause__):
                    raise report_full_disk() from error
                raise

        return handle_bounded
