import pytest

from stepscope.compare.drivers import find_drivers


def row(name, before, after, verdict="slower", share=None, **more):
    change = None if before is None or after is None else after - before
    times = {"before_ns": before, "after_ns": after, "change_ns": change}
    return {"name": name, **times, "verdict": verdict, "share_ratio": share, **more}


def named(*rows):
    found = find_drivers(rows)
    return found.total and found.total["name"], [part["name"] for part in found.parts]


def test_a_tenth_of_the_change_is_a_reason_unless_it_is_unclear():
    assert named(
        row("step", 1000, 1100, share=1.0),
        row("backward", 500, 570, share=0.7),
        row("forward", 300, 319, verdict="unclear", share=0.19),
        row("copy", 10, 20, verdict="untested", share=0.1),
        row("optimizer", 50, 59, share=0.09),
        row("input", 60, 50, verdict="faster", share=-0.1),
        row("gone", None, 5, verdict="only after", share=None),
    ) == ("step", ["backward", "copy"])


def test_what_changed_as_much_the_other_way_is_named_too():
    found = find_drivers(
        (
            row("step", 1000, 900, verdict="faster", share=1.0),
            row("backward", 500, 300, verdict="faster", share=2.0),
            row("residual", 60, 150, share=-0.9),
            row("input", 60, 70, verdict="unclear", share=-0.1),
            row("optimizer", 50, 59, share=-0.09),
        )
    )
    assert [part["name"] for part in found.parts] == ["backward"]
    assert [part["name"] for part in found.against] == ["residual"]
    assert not find_drivers((row("step", 10, 11, verdict="unclear"), row("fc", 10, 9, share=-1.0))).against


@pytest.mark.parametrize("verdict", ["unclear", "same"])
def test_in_an_unchanged_whole_a_clear_change_of_a_hundredth_of_it_matters(verdict):
    assert named(
        row("step", 1000, 1000, verdict=verdict),
        row("forward", 100, 110),
        row("backward", 200, 190, verdict="faster"),
        row("optimizer", 50, 59),
        row("input", 50, 90, verdict="untested"),
    ) == ("step", ["forward", "backward"])


@pytest.mark.parametrize("verdict", ["slower", "unclear"])
def test_events_inside_another_are_no_reasons_of_their_own(verdict):
    inside = row("fc.gemm", 10, 20, share=1.0, inside="fc")
    assert named(row("iteration", 100, 110, verdict, share=1.0), inside) == ("iteration", [])


def test_without_a_whole_on_both_sides_every_clear_change_is_told():
    small = row("fc", 10_000, 10_001)
    assert named(small, row("act", 5, 6, verdict="unclear")) == (None, ["fc"])
    gone = row("iteration", 10, None, verdict="only before")
    assert named(gone, small) == (None, ["fc"])
    assert named() == (None, [])


@pytest.mark.parametrize(
    ("other", "expected"),
    [(None, "new"), (row("fc", 60, 60, "same"), "new"), (row("fc", 60, 0, "removed"), "Net")],
)
def test_an_added_part_stands_for_its_node_unless_another_was_removed(other, expected):
    rows = [row("step", 500, 600, share=1.0), row("Net", 500, 600, share=1.0), row("new", 0, 100, "added", share=1.0)]
    tree = zip([*rows, *filter(None, [other])], (0, 1, 2, 2), strict=False)
    (found,) = find_drivers([one | {"depth": depth, "kind": "module"} for one, depth in tree]).parts
    assert found["name"] == expected
