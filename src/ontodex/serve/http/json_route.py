"""Routes whose JSON bodies pass the limits before any schema sees them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from ontodex.errors import DataError
from ontodex.serve.http.json_limits import parse_body
from ontodex.serve.http.problems import Problem


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
            return await handle(_BoundedRequest(request.scope, request.receive))

        return handle_bounded
