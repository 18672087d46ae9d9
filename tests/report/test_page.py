"""The page is one document that loads nothing and takes no name for its own text."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from stepscope.report.page import page

HOSTILE = "</script><!--<script>alert(1)</script>\u2028"
MOST_BYTES = 300_000


class Elements(HTMLParser):
    """The elements of a document, with the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag):
        self.found.append((f"/{tag}", {}, ""))

    def handle_data(self, data):
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = tag, attributes, text + data


def test_names_in_the_data_end_no_script():
    elements = Elements(page(HOSTILE, {"name": HOSTILE})).found
    scripts = [(a, text) for tag, a, text in elements if tag == "script"]
    (block, data), (own, _) = scripts
    assert block == {"type": "application/json", "id": "stepscope-data"}
    assert json.loads(data) == {"name": HOSTILE}
    assert own == {}
    (title,) = [text for tag, _, text in elements if tag == "title"]
    assert title == HOSTILE


def test_the_policy_allows_its_own_script_and_style_and_nothing_else():
    text = page("run", {})
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    elements = Elements(text).found
    for directive, tag in (("script-src", "script"), ("style-src", "style")):
        own = next(words for name, a, words in elements if name == tag and "type" not in a)
        digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "connect-src" not in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("attribute", ["src", "href", "srcset", "style", "onload", "onclick"])
def test_no_element_loads_or_runs_anything(attribute):
    assert [tag for tag, a, _ in Elements(page("run", {})).found if attribute in a] == []


def test_a_page_without_data_may_ask_its_server():
    text = page("run", may_ask=True)
    assert "stepscope-data" not in "".join(a.get("id") or "" for _, a, _ in Elements(text).found)
    assert "connect-src 'self'" in text


def test_script_and_style_stay_small_and_load_nothing():
    elements = Elements(page("run")).found
    own = {tag: text for tag, _, text in elements if tag in ("script", "style")}
    assert len(own["script"].encode()) > 10_000
    assert sum(len(text.encode()) for text in own.values()) < MOST_BYTES
    assert re.findall(r"@import|url\(|@font-face", own["style"]) == []
    assert re.findall(r"https?://(?!www\.w3\.org/)[\w.-]+", own["script"]) == []
