"""Words come through bash as they are, whatever is in them, and shellcheck has nothing to say."""

import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.launch.jobscript import bash_word, bash_words

ODD = [
    "a b", "it's", "$HOME", "`ls`", 'say "x"', "back\\slash", "~/x", "~", "*", "a\nb", "\x1b[0m",
    "“q”", "ä", "{}", "[a]", "!", "#c", "a;b", "&", "|", "", "-x", "\r", "$(x)", "'$'", "\\", "a=b",
    "*.py", "\xa0", "\udcff", "%", "`", "\\'\"$", "do", "done", "{a,b}", "=a", "1>2", "<", "\x017",
]  # fmt: skip


def through_bash(words: list[str]) -> list[str]:
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {bash_words(words)}"], capture_output=True, check=True)
    return [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]


def test_odd_words_are_read_back() -> None:
    assert through_bash(ODD) == ODD


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=1))
def test_any_words_are_read_back(words: list[str]) -> None:
    assert through_bash(words) == words


def test_words_that_need_no_quotes_have_none() -> None:
    assert bash_words(["python", "-m", "a.b", "--lr=1e-3"]) == "python -m a.b --lr=1e-3"
    assert bash_word("a b") == "'a b'"


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck here")
def test_shellcheck_has_nothing_to_say_about_any_of_them() -> None:
    script = os.fsencode(f"#!/bin/bash\npython {bash_words(ODD)}\n")
    done = subprocess.run(["shellcheck", "-"], input=script, capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"")
