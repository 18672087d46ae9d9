"""Decides who may ask: by the server's host names, the origins of pages, and the token.

A loopback address protects neither from other users of the machine nor from pages in the user's own browser. The token
excludes other users. The host check excludes pages of a site that points its name here (DNS rebinding), the origin
check pages that send requests from their own site.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from stepscope.base.errors import StepScopeError, UsageError

ERRORS = {
    "bad-address": (
        "`stepscope view --behind URL` takes the address under which a proxy shows the page, as a "
        "browser sees it: `https://hub.example.org/user/ann/proxy/8765/`."
    ),
    "foreign-host": (
        "The server was addressed by a name that is not its own. It answers to loopback names with its own "
        "port, and to the name given with `--behind`. Through `ssh -L` both ports must be the same."
    ),
    "foreign-origin": "A page of another site sent a request to the server, which only answers its own page.",
    "no-token": (
        "The request has no token, or a wrong one. Open the link that `stepscope view` printed; each start "
        "makes a new token. A program sends it as `Authorization: Bearer TOKEN`."
    ),
}

LOOPBACK = "127.0.0.1"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class RefusedError(StepScopeError):
    """A refused request, with its HTTP status."""

    def __init__(self, status: int, message: str, *, hint: str = "", slug: str) -> None:
        super().__init__(message, hint=hint, slug=slug)
        self.status = status


@dataclass(frozen=True, slots=True)
class Place:
    """Where a browser finds the page: `origin`, as in https://hub.example.org, `host`, and `prefix`, the path before
    the page's own, without a final slash.
    """

    origin: str
    host: str
    prefix: str = ""


def place_behind(url: str) -> Place:
    """Parses the address of the server behind a proxy.

    >>> place_behind("https://hub.example.org/user/ann/proxy/8765/").prefix
    '/user/ann/proxy/8765'

    Raises:
        UsageError: it is not the address of a server.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    name = (parts.hostname or "").lower()
    plain = not (parts.username or parts.password or parts.query or parts.fragment)
    if parts.scheme not in _DEFAULT_PORTS or not name or not plain or any(map(str.isspace, url)):
        raise UsageError(
            f"{url!r} is not the address of a page",
            hint="give it as a browser shows it: https://hub.example.org/user/ann/proxy/8765/",
            slug="bad-address",
        )
    host = _with_port(f"[{name}]" if ":" in name else name, port, parts.scheme)
    return Place(f"{parts.scheme}://{host}", host, parts.path.rstrip("/"))


def _with_port(name: str, port: int | None, scheme: str) -> str:
    return name if port in (None, _DEFAULT_PORTS[scheme]) else f"{name}:{port}"


@dataclass(frozen=True)
class Policy:
    """Decides about requests to one server.

    Args:
        behind: the address at which a proxy shows it.
        token: the token that each request must have; a new one by default.
    """

    port: int
    behind: Place | None = None
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def places(self) -> list[Place]:
        """The server's addresses; the first one is printed."""
        hosts = [_with_port(name, self.port, "http") for name in (LOOPBACK, "localhost", "[::1]")]
        loopback = [Place(f"http://{host}", host) for host in hosts]
        return [*([self.behind] if self.behind else []), *loopback]

    @property
    def link(self) -> str:
        """The page's address with the token."""
        place = self.places[0]
        return f"{place.origin}{place.prefix}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The cookie's name, with the port: cookies belong to a host, and each port may have its own server."""
        return f"stepscope-{self.port}"

    def check_place(self, headers: Mapping[str, str], *, opens_page: bool) -> Place:
        """Returns the place at which a request arrived.

        Args:
            opens_page: whether it asks for the page, to which other sites may link.

        Raises:
            RefusedError: the host or origin is foreign.
        """
        host = headers.get("host", "").lower()
        place = next((candidate for candidate in self.places if candidate.host == host), None)
        if place is None:
            raise RefusedError(
                421,
                f"this server is not {host or 'without a name'}",
                hint=f"open {self.places[0].origin}; a proxy's name is given with --behind",
                slug="foreign-host",
            )
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "none")
        is_local = origin in (None, place.origin) and site in ("none", "same-origin")
        if not is_local and not (opens_page and origin is None):
            raise RefusedError(
                403,
                "a page of another site asked",
                hint="open the link that stepscope view printed",
                slug="foreign-origin",
            )
        return place

    def check_token(self, *brought: str | None) -> None:
        """Accepts a request if one of the given tokens is right.

        Raises:
            RefusedError: none is.
        """
        # Compares all of them in constant time, so that timing reveals nothing.
        same = [secrets.compare_digest((token or "").encode(), self.token.encode()) for token in brought]
        if not any(same):
            raise RefusedError(
                401, "the token is missing or wrong", hint="open the link that stepscope view printed", slug="no-token"
            )
