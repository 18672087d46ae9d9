"""The options that PyProf's users know: `-c` for columns, `-w` for a width, values between spaces."""

import pytest
from tests.literal import literal_store

from stepscope.query.ask import ask
from stepscope.questions import find
from stepscope.report.text import spaced_text


def test_c_chooses_and_orders_columns(run, store):
    out = run("prof", store, "--csv", "-c", "sil,kernel,idx", "--top", "2").out
    assert out == "sil,kernel,idx\n10,gemm,1\n10,add,2\n"


def test_spaces_are_what_awk_takes_apart(run, store):
    out = run("prof", store, "--spaces", "-c", "idx,op,kernel,flops", "--top", "1").out
    assert out == "idx op kernel flops\n1 - gemm -\n"


def test_w_sets_the_width_of_words_alone(run, store):
    wide = run("prof", store, "-w", "150").out
    narrow = run("prof", store, "-w", "40").out
    assert max(map(len, narrow.splitlines())) < max(map(len, wide.splitlines()))
    assert run("prof", store, "-w", "40", "--csv").out == run("prof", store, "--csv").out


@pytest.mark.parametrize("width", ["0", "19", "wide"])
def test_a_width_that_fits_nothing_is_a_wrong_call(run, store, width):
    assert run("prof", store, "-w", width).code == 2


def test_a_value_never_breaks_its_line_or_column():
    kernel = {"name": "void scan\n<int, 1>\x1b[1m(int)", "dur_ns": 5}
    with literal_store({"device_event": [kernel]}) as store:
        text = spaced_text(ask(find("kernels"), store, columns=["name", "count"]))
    lines = text.splitlines()
    assert lines[0] == "name count"
    assert [len(line.split(" ")) for line in lines] == [2, 2]
    assert "\x1b" not in text
