"""The page: one HTML file with its script, its style and, in a report, its data.

The same bundle is used for both: with a data block in the page it is a report, without one it asks a server.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from pathlib import Path
from typing import Any

_BUNDLE = Path(__file__).parent / "web"

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
{ahead}<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="stepscope"></div>
<noscript>This page is drawn by the script in it, and scripts are switched off here.</noscript>
{data}<script>{script}</script>
</body>
</html>
"""


_AHEAD = "".join(
    f'<link rel="preload" as="fetch" href="{route}" crossorigin>\n' for route in ("api/recordings", "api/questions")
)
"""The script's first requests to a server, sent while the browser still reads the script."""


def page(title: str, data: dict[str, Any] | None = None, *, may_ask: bool = False) -> str:
    """Makes the page as one HTML document that loads nothing.

    Args:
        data: the report's data (`page_data`); None for a page that asks its server.
        may_ask: whether the page may send requests to its origin; a report sends none.

    Example:
        >>> "default-src 'none'" in page("ResNet-50", {})
        True
    """
    style, script = _bundle()
    block = ""
    if data is not None:
        block = f'<script type="application/json" id="stepscope-data">{json_in_html(data)}</script>\n'
    return _PAGE.format(
        policy=page_policy(may_ask=may_ask),
        title=escape(title),
        ahead=_AHEAD if may_ask else "",
        style=style,
        script=script,
        data=block,
    )


def page_policy(*, may_ask: bool = False) -> str:
    """The page's content security policy: only its own script and style. A server also sends it as a header."""
    style, script = _bundle()
    policy = [
        "default-src 'none'",
        f"script-src {_hash(script)}",
        f"style-src {_hash(style)}",
        *(["connect-src 'self'"] if may_ask else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(policy)


def _bundle() -> tuple[str, str]:
    style, script = (_BUNDLE / name for name in ("page.css", "page.js"))
    return style.read_text(encoding="utf-8"), script.read_text(encoding="utf-8")


def json_in_html(value: Any) -> str:
    """JSON for an HTML script element: no text in it can end the element or start a comment.

    >>> json_in_html("</script>")
    '"\\\\u003c/script>"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # JSON has none of these characters outside of strings.
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
