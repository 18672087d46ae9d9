import click
import pytest

from stepscope.cli.choices import column_names, read_numbers, read_size, read_window, typed_sources
from stepscope.query.event_filter import EventFilter, parse_window

PARAMETER = click.Option(["--window"])
CONTEXT = click.Context(click.Command("toy"))


def test_a_stretch_of_time_is_read():
    assert read_window(CONTEXT, PARAMETER, "500ms:2s") == (500_000_000, 2_000_000_000)
    assert read_window(CONTEXT, PARAMETER, None) is None
    with pytest.raises(click.BadParameter, match="not a stretch of time"):
        read_window(CONTEXT, PARAMETER, "2s:1s")


def test_repeated_lists_are_joined():
    assert read_numbers(CONTEXT, PARAMETER, ("3", "0-1,3")) == (0, 1, 3)
    assert read_numbers(CONTEXT, PARAMETER, ()) is None
    with pytest.raises(click.BadParameter):
        read_numbers(CONTEXT, PARAMETER, ("3", "x"))


def test_columns_may_have_spaces_around_them():
    assert column_names(" a, b ,") == ["a", "b"]
    assert column_names(None) is None


def test_sources_are_typed_again_so_that_they_can_be_pasted():
    assert typed_sources(["-"]) == "SRC"
    assert typed_sources(["-dash.json"]) == "./-dash.json"
    assert typed_sources(["a b.json", "-"], "one") == "'a b.json' SRC --job one"
    part = EventFilter(name="*gemm*", window=(0, 1500))
    assert typed_sources(["a"], ranks=(0, 2, 3, 4), steps=(5,), part=part) == (
        "a --rank 0,2-4 --step 5 --name '*gemm*' --window 0ns:1500ns"
    )
    assert parse_window("0ns:1500ns") == (0, 1500)


@pytest.mark.parametrize(
    ("text", "size"), [("2GB", 2 * 10**9), ("512 MiB", 512 << 20), ("1.5g", 15 * 10**8), ("7", 7), ("1e9", 10**9)]
)
def test_a_size_is_read(text, size):
    assert read_size(CONTEXT, PARAMETER, text) == size


@pytest.mark.parametrize("text", ["", "0", "GB", "-1GB", "2 rooms"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(click.BadParameter, match="write 2GB"):
        read_size(CONTEXT, PARAMETER, text)
