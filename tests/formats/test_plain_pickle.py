"""Pickles of plain data are read as Python reads them, and what is anything else is refused unrun."""

import contextlib
import gzip
import io
import pickle
import pickletools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.base.errors import SourceError
from stepscope.formats import plain_pickle
from stepscope.formats.container import members


def load(data: bytes, take=lambda found: found):
    class Stream:
        def __init__(self) -> None:
            self.read = io.BytesIO(data).read

    return plain_pickle.load(Stream(), "a.pickle", take)  # type: ignore[arg-type]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**62), 2**63) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(0, 9), inner),
    max_leaves=30,
)


@given(VALUES, st.integers(2, 5))
@examples(60)
def test_plain_values_are_what_pickle_reads(value, protocol):
    shared = [value, value]
    assert load(pickle.dumps(shared, protocol)) == shared
    assert load(pickletools.optimize(pickle.dumps(shared, protocol))) == shared


def test_a_list_of_more_than_a_thousand_and_texts_over_a_block_are_complete():
    value = {"a": list(range(3000)), "b": ["x" * 70_000] * 3, "c": ["y" * 900_000 + str(n) for n in range(4)]}
    for protocol in (2, 3, 4, 5):
        assert load(pickle.dumps(value, protocol)) == value


def test_dictionaries_are_taken_inner_ones_first_and_not_kept():
    event = {"action": "alloc", "size": 1}
    taken = []

    def take(found):
        if "action" not in found:
            return found
        taken.append(dict(found))
        return plain_pickle.TAKEN

    value = {"events": [event, {"action": "free", "size": 2}], "rest": 3}
    top = load(pickle.dumps(value, 4), take)
    assert taken == [event, {"action": "free", "size": 2}]
    assert top["events"] == [plain_pickle.TAKEN] * 2
    # What the file refers to again is what stands for it.
    assert load(pickle.dumps({"a": [event, event], "b": 0}), take)["a"] == [plain_pickle.TAKEN] * 2


class Evil:
    def __reduce__(self):
        return (print, ("this must never run",))


class Plainish:
    x = 1


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize(
    "value", [Evil(), {"a": [Evil()]}, Plainish(), print], ids=["call", "inside", "object", "function"]
)
def test_code_in_a_pickle_is_refused_and_runs_nothing(value, protocol, capsys):
    data = pickle.dumps(value, protocol)
    with pytest.raises(SourceError) as caught:
        load(data)
    assert caught.value.slug == "pickle-with-code"
    assert capsys.readouterr().out == ""


HOSTILE = {
    "breaks off": pickle.dumps({"segments": list(range(5000))}, 4)[:-700], "empty": b"", "no value": b"\x80\x04.",
    "text that claims 4 GB": b"\x80\x02X\xff\xff\xff\xffab.",
    "number of 255 bytes": b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b".",
    "number of a long length": b"\x80\x02\x8b\xff\xff\xff\x7f.", "reference to nothing": b"\x80\x02h\x05.",
    "remembers far ahead": b"\x80\x02Nr\xff\xff\xff\xff.", "marks without end": b"\x80\x02" + b"(" * 100_000 + b".",
    "tuple as a key": b"\x80\x02}" + b")" + b"\x85" * 10 + b"Ns.", "list as a key": b"\x80\x02}(]Nu.",
    "odd entries": b"\x80\x02}(K\x01u.", "appends to a number": b"\x80\x02K\x01(K\x02e.",
    "protocol 9": b"\x80\x09N.", "text protocol": pickle.dumps([1, "a"], 0), "bytes": pickle.dumps(b"abc", 4),
    "set": pickle.dumps({1, 2}, 4), "two values": b"\x80\x02NN.",
}  # fmt: skip


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_what_is_damaged_or_claims_too_much_is_one_error(data):
    with pytest.raises(SourceError) as caught:
        load(data)
    assert caught.value.slug in ("pickle-damaged", "pickle-with-code")


def test_a_tuple_nested_without_end_and_a_list_of_millions_are_refused(monkeypatch):
    monkeypatch.setattr(plain_pickle, "MAX_VALUES", 1 << 16)
    monkeypatch.setattr(plain_pickle, "MAX_MEMO", 1 << 16)
    for data in (
        b"\x80\x02)" + b"\x85" * 3_000_000 + b".", b"\x80\x02](" + b"N" * 3_000_000 + b"e.",
        b"\x80\x02" + b"]" * 3_000_000 + b".", b"\x80\x02N" + b"\x94" * 3_000_000 + b".",
    ):  # fmt: skip
        with pytest.raises(SourceError, match="more values than a snapshot"):
            load(data)


def test_texts_that_together_are_too_long_are_refused(monkeypatch):
    monkeypatch.setattr(plain_pickle, "MAX_TEXT_BYTES", 1000)
    with pytest.raises(SourceError, match="texts are longer"):
        load(pickle.dumps(["x" * 100 + str(n) for n in range(20)]))


def test_it_reads_a_packed_file(tmp_path):
    path = tmp_path / "a.pickle.gz"
    path.write_bytes(gzip.compress(pickle.dumps({"a": [1, 2, 3], "b": 2}, 5)))
    (member,) = members(path)
    with member.open() as stream:
        assert plain_pickle.load(stream, "a.gz", lambda found: found) == {"a": [1, 2, 3], "b": 2}


@given(st.binary(max_size=200))
@examples(60)
def test_bytes_at_random_are_a_value_or_an_error(data):
    with contextlib.suppress(SourceError):
        load(b"\x80\x04" + data)
