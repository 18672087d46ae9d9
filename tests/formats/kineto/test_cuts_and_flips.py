"""Traces cut and flipped at random: a part of what benchmarks/fuzz_damage.py does at length."""

import gzip
import importlib.util
import sys
from pathlib import Path

import pytest
from tests.examples import how_many

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "fuzz_damage.py"


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("fuzz_damage", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def small(fuzz):
    return fuzz.original(fuzz.small_trace())


def test_intact_trace_is_read_whole(fuzz, small, tmp_path):
    tables = fuzz.read_bytes(small.text, tmp_path)
    assert tables.report.damage == {}
    assert tables.report.read == len(small.events)
    assert fuzz.rows_of(small, tables) == small.before(len(small.text))[1]


def test_oracle_notices_a_lost_event(fuzz, small, tmp_path):
    shorter = small.text.replace(b'"aten::mm"', b'"aten::xx"', 1)
    tables = fuzz.read_bytes(shorter, tmp_path)
    assert fuzz.fraction_before(small, tables, len(small.text)) < 1


def test_cut_anywhere_keeps_what_was_whole(fuzz, small):
    outcome = fuzz.run(small, "cut", how_many(50), seed=11)
    assert (outcome.tracebacks, outcome.refused, outcome.worst) == (0, 0, 1.0)


def test_flipped_bytes_cost_only_the_events_they_hit(fuzz, small):
    outcome = fuzz.run(small, "flip", how_many(20), seed=12, flips=12)
    assert (outcome.tracebacks, outcome.refused) == (0, 0)
    assert outcome.worst >= 0.99


@pytest.mark.parametrize("key", [b"dur", b"ts", b"ph"])
def test_key_in_another_case_beside_damage_costs_no_other_event(fuzz, small, tmp_path, key):
    text = bytearray(small.text)
    at = text.index(b'"%s"' % key, 40_000) + 1
    damage = text.index(b"[1, 2, 3]", at)
    text[at] ^= 0x20  # what a flipped bit makes of a letter
    text[damage + 1] = 0xFF
    tables = fuzz.read_bytes(bytes(text), tmp_path)
    assert fuzz.fraction_untouched(small, tables, [at, damage + 1]) == 1


def test_flipped_bytes_of_a_gzip_file_raise_nothing(fuzz, small):
    assert fuzz.run_packed(small, how_many(15), seed=13, flips=5).tracebacks == 0


@pytest.mark.traces
def test_recorded_trace_survives_cuts_and_flips(fuzz, shared_traces):
    path = shared_traces / "kineto" / "bert_small_h100" / "trace.json.gz"
    trace = fuzz.original(gzip.decompress(path.read_bytes()))
    for kind, count in (("cut", 8), ("flip", 2)):
        outcome = fuzz.run(trace, kind, how_many(count), seed=14)
        assert (outcome.tracebacks, outcome.refused) == (0, 0)
        assert outcome.worst >= 0.99
