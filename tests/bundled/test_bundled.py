"""The plug-ins that come with StepScope are found without a search, and the core works without them."""

import shutil
from pathlib import Path

import pytest
from tests.formats.test_contract import SAMPLES
from tests.processes import python

import stepscope
from stepscope.base import plugins
from stepscope.formats.accepted import accepted
from stepscope.formats.container import members
from stepscope.formats.registry import FORMATS, format_of, our_formats
from stepscope.launch.tools import TOOLS

RETIRED = {"nvprof", "nvprof-metrics", "nvprof-log", "pyprof", "aps"}
LOADED = (
    "import sys, stepscope\n"
    "with stepscope.open(sys.argv[1], cache=False) as trace: print(trace.sources(columns=['format']).rows())\n"
    "from stepscope.base import plugins\n"
    "print(plugins.installed.cache_info().misses, plugins.bundled.cache_info().misses)"
)


def test_its_formats_and_tools_are_ours_whatever_the_switch_says(monkeypatch):
    monkeypatch.setenv(plugins.SWITCH, "no")
    assert {known.name for known in our_formats()} - {known.name for known in FORMATS} == RETIRED
    assert {"nvprof", "aps"} < TOOLS.keys()


@pytest.mark.parametrize("name", sorted(RETIRED))
def test_its_readers_give_what_is_checked_of_plug_ins(name, tmp_path):
    sample = SAMPLES[name]
    (tmp_path / "sample").write_bytes(sample.encode() if isinstance(sample, str) else sample(tmp_path))
    (member,) = members(tmp_path / "sample")
    known = format_of(member)
    assert known.name == name
    accepted(known.read(member, None))


@pytest.mark.parametrize(("text", "looked"), [(SAMPLES["kineto"], "0 0"), (SAMPLES["aps"], "0 1")])
def test_a_file_of_the_core_loads_none_and_no_file_of_ours_searches_packages(tmp_path, text, looked):
    (tmp_path / "recording").write_text(text)
    assert python("-c", LOADED, str(tmp_path / "recording")).stdout.splitlines()[1:] == [looked]


def test_the_core_works_without_the_folder_and_says_what_it_does_not_know(tmp_path):
    shutil.copytree(
        Path(stepscope.__file__).parent, tmp_path / "stepscope", ignore=shutil.ignore_patterns("bundled", "*.pyc")
    )
    (tmp_path / "trace.json").write_text(SAMPLES["kineto"])
    (tmp_path / "aps.txt").write_text(SAMPLES["aps"])
    run = ("-m", "stepscope", "sources", "--no-cache", "--csv", "--columns", "format")
    env = {"PYTHONPATH": str(tmp_path)}
    assert python(*run, str(tmp_path / "trace.json"), env=env).stdout == "format\nkineto\n"
    refused = python(*run, str(tmp_path / "aps.txt"), env=env)
    assert refused.returncode == 1
    assert "not a recording (text)" in refused.stderr
