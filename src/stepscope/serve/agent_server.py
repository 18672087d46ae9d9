"""The server behind `stepscope mcp`: `agent_tools` over standard input and output, with the official SDK.

Only this module imports the SDK.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import jsonschema
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as ToolOfSdk

from stepscope import __version__
from stepscope.base.errors import StepScopeError, UsageError
from stepscope.base.known_names import check_name
from stepscope.serve.agent_tools import INSTRUCTIONS, tools
from stepscope.serve.tasks import Tasks
from stepscope.serve.user_errors import error_json, to_user_error

if TYPE_CHECKING:
    from stepscope.serve.asking import Recordings

ERRORS = {
    "still-reading": (
        "An agent asked a recording that is still being read. Reading continues; repeat the call later. "
        "`stepscope import SRC -o DIR` reads it once, in advance."
    )
}

_READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_MAX_MESSAGE = 300


def serve_agent(recordings: Future[Recordings], *, limit_s: float) -> None:
    """Answers calls until standard input ends."""
    asyncio.run(_serve(recordings, limit_s))


async def _serve(recordings: Future[Recordings], limit_s: float) -> None:
    tasks = Tasks(limit_s)
    server = make_server(recordings, tasks, limit_s)
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        await tasks.close()


def make_server(recordings: Future[Recordings], tasks: Tasks, limit_s: float) -> Server[Any]:
    """Makes the SDK's server with our tools."""
    declared = {tool.name: tool for tool in tools()}

    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                ToolOfSdk(name=tool.name, description=tool.description, input_schema=tool.takes, annotations=_READ_ONLY)
                for tool in declared.values()
            ]
        )

    async def call_tool(_: Any, params: CallToolRequestParams) -> CallToolResult:
        given = params.arguments or {}
        arguments = {name: value for name, value in given.items() if value is not None}
        try:
            tool = declared[check_name(params.name, declared, "tool")]
            _check(tool.name, arguments, tool.takes)
            opened = await opened_within(recordings, limit_s)
            never = asyncio.get_running_loop().create_future()  # cancelling the call ends `do`
            reply = await tasks.do(lambda: tool.does(opened, arguments), never)
        except Exception as error:
            return _result({"error": error_json(to_user_error(error))}, is_error=True)
        return _result(reply)

    return Server(
        "stepscope", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


def _result(reply: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    text = json.dumps(reply, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=reply, is_error=is_error)


def _check(tool: str, arguments: dict[str, Any], takes: dict[str, Any]) -> None:
    """Refuses arguments that the tool does not take, or of the wrong type.

    Raises:
        UsageError: there is such an argument.
    """
    for name in arguments:
        check_name(name, takes["properties"], "argument", of=tool)
    try:
        jsonschema.validate(arguments, takes)
    except jsonschema.ValidationError as error:
        place = ".".join(map(str, error.absolute_path))
        if error.validator == "enum":
            check_name(str(error.instance), error.validator_value, place)
        raise UsageError(
            f"{place and f'{place}: '}{error.message[:_MAX_MESSAGE]}",
            hint=str(error.schema.get("description", "")) if place else "",
            slug="bad-parameter",
        ) from None


async def opened_within(recordings: Future[Recordings], limit_s: float) -> Recordings:
    """Waits for the recordings to be open.

    Raises:
        StepScopeError: they are not open within the limit (seconds), or cannot be opened.
    """
    opening = asyncio.wrap_future(recordings)
    try:
        return await asyncio.wait_for(asyncio.shield(opening), limit_s)
    except asyncio.TimeoutError:
        raise StepScopeError(
            "the recording is still being read",
            hint="ask again in a while; `stepscope import` reads it once, beforehand",
            slug="still-reading",
        ) from None
