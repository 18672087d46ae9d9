"""The server's addresses. All answers are JSON, including errors, except the page.

    GET  /                        the page; `?token=` is moved from the address into a cookie
    GET  /api/recordings          ids, names and contents
    GET  /api/questions           the declarations
    GET  /api/answers/QUESTION    an answer (`reply`), of `recording=1`, with the question's parameters
    GET  /api/state               how often the recordings were reopened because their files grew
    GET  /api/schema              the tables of SQL and their columns
    GET  /api/timeline/WHAT       layout, tile, event, find or range of the timeline of `recording=1`
    POST /api/sql                 the answer to {"recording": "1", "sql": "SELECT ..."}

An error is {"message", "hint", "slug"}, as the command line would print it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from stepscope.base.errors import StepScopeError, UsageError
from stepscope.questions import all_questions
from stepscope.report.declaration import page_declaration, table_declaration
from stepscope.report.page import page, page_policy
from stepscope.report.page_data import reply
from stepscope.schema.tables import TABLES
from stepscope.serve.policy import Policy, RefusedError
from stepscope.serve.timeline import ask_timeline
from stepscope.serve.user_errors import error_json, to_user_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from stepscope.query.table import Table
    from stepscope.serve.asking import Recordings
    from stepscope.serve.tasks import Tasks

ERRORS = {
    "bad-request": 'The body of a request must be JSON like {"recording": "1", "sql": "SELECT 1"}.',
    "body-too-large": "A request is larger than any question in SQL needs to be.",
    "no-such-address": "The server does not have this address, or only for another method (GET for all but `api/sql`).",
}

MAX_ROWS = 20_000
"""Rows of one answer, unless a request sets `top`: a page does not draw or sort more."""
MAX_BODY_BYTES = 256 << 10
_GZIP_FROM_BYTES = 2_000

_SENT_WITH_ALL = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def make_app(recordings: Recordings, policy: Policy, tasks: Tasks) -> ASGIApp:
    """Makes the server as an ASGI application."""
    title = f"{recordings.listed()[0]['name']} – StepScope"

    async def show_page(request: Request) -> Response:
        if "token" in request.query_params:
            # The location is relative, because a proxy has a prefix before it. Lax instead of strict, because the link
            # may be followed from a page elsewhere and then redirects here.
            response = RedirectResponse("./", status_code=303)
            response.set_cookie(
                policy.cookie,
                policy.token,
                path=f"{request.state.place.prefix}/",
                secure=request.state.place.origin.startswith("https:"),
                httponly=True,
                samesite="lax",
            )
            return response
        return HTMLResponse(
            page(title, may_ask=True),
            headers={"content-security-policy": f"{page_policy(may_ask=True)}; frame-ancestors 'none'"},
        )

    async def list_recordings(request: Request) -> Response:
        return await _json_response(request, recordings.for_page)

    async def list_questions(request: Request) -> Response:
        return await _json_response(request, lambda: [page_declaration(question) for question in all_questions()])

    async def show_state(_: Request) -> Response:
        return JSONResponse(recordings.state())

    async def list_tables(_: Request) -> Response:
        return JSONResponse([table_declaration(table) for table in TABLES.values()])

    async def answer(request: Request) -> Response:
        name: str = request.path_params["question"]
        parameters = request.query_params.multi_items()
        ids = [value for key, value in parameters if key == "recording"]
        others = [(key, value) for key, value in parameters if key != "recording"]
        max_rows = None if request.query_params.get("top") else MAX_ROWS
        return await _answered(request, lambda: recordings.ask(name, ids, others), max_rows)

    async def answer_sql(request: Request) -> Response:
        body = await _body(request)
        return await _answered(request, lambda: recordings.sql(body["recording"], body["sql"], max_rows=MAX_ROWS), None)

    async def answer_timeline(request: Request) -> Response:
        what: str = request.path_params["what"]
        parameters = request.query_params
        return await _json_response(request, lambda: ask_timeline(recordings, what, parameters))

    async def _answered(request: Request, ask: Callable[[], Table], max_rows: int | None) -> Response:
        return await _json_response(request, lambda: reply(ask(), max_rows=max_rows))

    async def _json_response(request: Request, ask: Callable[[], Any]) -> Response:
        def work() -> bytes:
            # In the thread, because an answer of many rows takes longer to write than to compute.
            return json.dumps(ask(), separators=(",", ":")).encode()

        sent_by = "page" if policy.cookie in request.cookies else "program"
        client = f"{sent_by} {request.headers.get('user-agent', '')}"
        content = await tasks.do(work, _disconnected(request), client)
        return Response(content, media_type="application/json")

    async def no_icon(_: Request) -> Response:
        return Response(status_code=204)

    app = Starlette(
        routes=[
            _route("/", show_page),
            _route("/favicon.ico", no_icon),
            _route("/api/recordings", list_recordings),
            _route("/api/questions", list_questions),
            _route("/api/state", show_state),
            _route("/api/schema", list_tables),
            _route("/api/answers/{question}", answer),
            _route("/api/timeline/{what}", answer_timeline),
            _route("/api/sql", answer_sql, method="POST"),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=_GZIP_FROM_BYTES, compresslevel=4)],
        exception_handlers={HTTPException: _handle_error, StepScopeError: _handle_error, Exception: _handle_error},
    )
    app.router.redirect_slashes = False
    return _Guarded(app, policy)


def _route(path: str, endpoint: Callable[[Request], Awaitable[Response]], method: str = "GET") -> Route:
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}  # Starlette answers HEAD as GET, and would compute the answer
    return route


class _Guarded:
    """Enforces the policy, and adds the headers that every answer has."""

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_all(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in _SENT_WITH_ALL.items()
                        if name.encode() not in present
                    ),
                ]
            await send(message)

        try:
            self._check(scope)
        except StepScopeError as error:
            await _error_response(error)(scope, receive, send_all)
        else:
            await self._app(scope, receive, send_all)

    def _check(self, scope: Scope) -> None:
        request = Request(scope)
        path = scope["path"]
        prefixes = {"", *(place.prefix for place in self._policy.places)}
        opens_page = scope["method"] == "GET" and path.rstrip("/") in prefixes
        place = self._policy.check_place(request.headers, opens_page=opens_page)
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        self._policy.check_token(
            bearer.strip() if scheme.lower() == "bearer" else None,
            request.cookies.get(self._policy.cookie),
            request.query_params.get("token") if opens_page else None,
        )
        if place.prefix and (path == place.prefix or path.startswith(f"{place.prefix}/")):
            scope["path"] = path.removeprefix(place.prefix) or "/"  # some proxies keep the prefix
        scope.setdefault("state", {})["place"] = place
        if int(request.headers.get("content-length") or 0) > MAX_BODY_BYTES:
            raise _too_large()


def _too_large() -> RefusedError:
    return RefusedError(
        413,
        f"the request has more than {MAX_BODY_BYTES >> 10} KiB",
        hint="ask for less at once",
        slug="body-too-large",
    )


async def _body(request: Request) -> dict[str, str]:
    """Reads the recording and the SQL from a request.

    Raises:
        RefusedError: the body is missing, malformed or too large.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise _bad_body(415)
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MAX_BODY_BYTES:
            raise _too_large()
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise _bad_body(400) from None
    fields = ("recording", "sql")
    if not isinstance(body, dict) or any(not isinstance(body.get(name), str) for name in fields):
        raise _bad_body(400)
    return {name: body[name] for name in fields}


def _bad_body(status: int) -> RefusedError:
    return RefusedError(
        status,
        "the request is not a question in SQL",
        hint='send JSON, as in {"recording": "1", "sql": "SELECT 1"}',
        slug="bad-request",
    )


async def _disconnected(request: Request) -> None:
    """Returns when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _handle_error(_: Request, error: Exception) -> Response:
    return _error_response(error)


def _error_response(error: Exception) -> Response:
    """Formats an error."""
    status, headers = _status(error), {}
    if isinstance(error, HTTPException):
        headers = dict(error.headers or {})
        error = RefusedError(
            status,
            "there is no such address" if status == 404 else "this address takes another method",
            hint="the page is at /",
            slug="no-such-address",
        )
    return JSONResponse(error_json(to_user_error(error)), status_code=status, headers=headers)


def _status(error: Exception) -> int:
    if isinstance(error, HTTPException):
        return error.status_code
    if isinstance(error, RefusedError):
        return error.status
    if isinstance(error, UsageError):
        return 400
    return 422 if isinstance(error, StepScopeError) or to_user_error(error).slug else 500
