"""GET /me, POST /login and POST /logout: the user and the key in the cookie."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from ontodex.serve.http.json_route import BoundedRoute
from ontodex.serve.http.middleware import COOKIE
from ontodex.serve.http.problems import Problem
from ontodex.serve.requests import LoginBody
from ontodex.serve.responses import LoginResponse, UserResponse
from ontodex.serve.service import ServiceDep, get_user

router = APIRouter(route_class=BoundedRoute, tags=["service"])
COOKIE_DAYS = 30


@router.get("/me", response_model=UserResponse)
def get_me(request: Request) -> Any:
    """Return the name that signs decisions, and how the user was authenticated."""
    return get_user(request)._asdict()


@router.post("/login", response_model=LoginResponse)
def login(body: LoginBody, service: ServiceDep, request: Request, response: Response) -> Any:
    """Store a key in a cookie that no script can read."""
    if service.keys is None:
        raise Problem(409, "this service has no keys", hint="GET /me returns your name")
    name = service.keys.find_name(body.key)
    if name is None:
        raise Problem(401, "this key is not known", headers={"www-authenticate": "Bearer"})
    response.set_cookie(
        COOKIE,
        body.key,
        max_age=COOKIE_DAYS * 86400,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return {"name": name}


@router.post("/logout", status_code=204)
def logout() -> Response:
    """Delete the cookie with the key."""
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response
