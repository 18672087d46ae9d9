"""Regions that C++ marks, through an operator that torch's dispatcher knows."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.processes import ran

from stepscope.record import annotate
from stepscope.record.cpp import include_path

pytestmark = pytest.mark.torch


@pytest.fixture
def heard() -> Iterator[list[str]]:
    said: list[str] = []

    @contextmanager
    def opened(name: str) -> Iterator[None]:
        said.append(f"<{name}")
        yield
        said.append(f"{name}>")

    annotate.listen(opened)
    yield said
    annotate.stop_listening(opened)


def test_the_operator_starts_and_ends_regions(heard: list[str]) -> None:
    import torch

    mark = torch.ops.stepscope.mark
    mark("never started", False)
    for name in ("lookup", "lookup", "copy"):
        mark(name, True)
    for name in ("copy", "lookup", "lookup"):
        mark(name, False)
    assert heard == ["<lookup", "<lookup", "<copy", "copy>", "lookup>", "lookup>"]


def test_the_header_calls_this_operator_and_lets_nothing_out() -> None:
    header = Path(include_path(), "stepscope.h").read_text()
    assert 'findSchema({"stepscope::mark", ""})' in header
    assert "noexcept" in header
    assert "catch (...)" in header
    assert len(header.splitlines()) < 45


STAND_IN = r"""
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>
namespace c10 {
struct IValue {
    std::string text;
    IValue(const std::string &name) : text(name) {}
    IValue(bool start) : text(start ? "starts" : "ends") {}
};
struct OperatorName { std::string name, overload; };
struct Handle {
    void callBoxed(std::vector<IValue> &stack) const {
        std::puts((stack.at(0).text + " " + stack.at(1).text).c_str());
        if (stack.at(0).text == "raises") throw 1;
    }
};
struct Dispatcher {
    static Dispatcher &singleton() { static Dispatcher one; return one; }
    std::optional<Handle> findSchema(const OperatorName &asked) {
        if (asked.name == "stepscope::mark" && std::getenv("KNOWN")) return Handle{};
        return std::nullopt;
    }
};
}  // namespace c10
"""
PROGRAM = r"""
#include "stepscope.h"
int lookup() {
    stepscope::region here("lookup");
    stepscope::region within("raises");
    return 0;
}
int main() { return lookup(); }
"""


def test_the_header_compiles_and_its_regions_start_and_end(tmp_path: Path) -> None:
    """Against a stand-in for torch's dispatcher: torch's own headers take half a minute."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler is installed")
    header = tmp_path / "ATen" / "core" / "dispatch" / "Dispatcher.h"
    header.parent.mkdir(parents=True)
    header.write_text(STAND_IN)
    (tmp_path / "job.cpp").write_text(PROGRAM)
    words = [compiler, "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-I", include_path()]
    job = str(tmp_path / "job")
    subprocess.run([*words, f"-I{tmp_path}", "-o", job, f"{job}.cpp"], check=True, timeout=60)
    said = [ran(job, env=known, check=True).stdout.split("\n") for known in ({}, {"KNOWN": "1"})]
    assert said == [[""], ["lookup starts", "raises starts", "raises ends", "lookup ends", ""]]
