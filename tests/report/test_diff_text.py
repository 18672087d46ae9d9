from dataclasses import replace

from stepscope.compare.rows import COLUMNS
from stepscope.query.rows import answer_dicts, answer_rows
from stepscope.query.table import Table
from stepscope.questions.diff import diff
from stepscope.report.diff_text import diff_lines, rows_in_short, verdict_sentence
from stepscope.report.markdown import markdown_text
from stepscope.report.renderers import Layout


def row(name, before, after, half=None, verdict="slower", share=None, **more):
    change = None if before is None or after is None else after - before
    return {
        "name": name,
        "before_ns": before,
        "after_ns": after,
        "change_ns": change,
        "change_ratio": change / before if before and change is not None else None,
        "ci95_low_ns": None if half is None else change - half,
        "ci95_high_ns": None if half is None else change + half,
        "verdict": verdict,
        "share_ratio": share,
        **more,
    }


def test_the_sentence_names_the_parts_that_are_most_of_the_change():
    rows = [
        row("step", 100_000_000, 110_000_000, 500_000, share=1.0),
        row("backward", 50_000_000, 57_000_000, 400_000, share=0.7),
        row("forward", 30_000_000, 32_500_000, 3_000_000, verdict="unclear", share=0.25),
        row("optimizer", 5_000_000, 5_500_000, 100_000, share=0.05),
    ]
    assert verdict_sentence(rows) == ("Step 10.0 % slower (+10.00 ms ± 500.0 µs): backward +7.000 ms.")


def test_a_row_of_a_clear_change_has_a_style_beside_its_word():
    rows = [row("step", 100, 90, 1, verdict="faster"), row("forward", 10, 19, 1), row("x", 5, 5, 1, verdict="same")]
    names = [name for name in rows[0] if name in {one.name for one in COLUMNS}]
    values = [[one[name] for name in names] for one in rows]
    table = Table(diff, answer_rows(COLUMNS, values, names))
    styles = {line.text.split()[0]: line.style for line in diff_lines(table, Layout(80))[2:6]}
    assert styles == {"name": "head", "step": "better", "forward": "worse", "x": "row"}


def test_the_sentence_says_when_nothing_is_sure():
    assert verdict_sentence([row("step", 100, 103, 9, verdict="unclear")]) == ("Step: no clear change (+3 ns ± 9 ns).")
    assert verdict_sentence([row("step", 100, 90, verdict="untested", share=1.0)]) == (
        "Step 10.0 % faster (-10 ns, too few steps for an interval)."
    )
    assert verdict_sentence([row("step", 100, 103, 4_800, verdict="unclear")]) == (
        "Step: no clear change (+3 ns, too few steps for an interval)."
    )
    assert verdict_sentence([row("step", 100, 100, 9, verdict="same")]) == "Step: no change."
    assert verdict_sentence([]) == "Nothing to compare."


def test_clear_parts_of_an_unclear_whole_are_told():
    rows = [row("step", 100, 103, 9, verdict="unclear"), row("forward", 10, 19, 1)]
    assert verdict_sentence(rows).endswith("Parts of it did change: forward +9 ns.")
    rows[0] = row("step", 100, 100, 9, verdict="same")
    assert verdict_sentence(rows) == "Step: no change. Parts of it did change: forward +9 ns."


def test_of_many_reasons_the_first_three_are_named():
    parts = [row(name, 10, 20, 1, share=0.25) for name in "abcd"]
    sentence = verdict_sentence([row("step", 100, 140, 2, share=1.0), *parts])
    assert sentence.endswith(": a +10 ns, b +10 ns, c +10 ns.")


def test_labels_without_whole_iterations_have_a_sentence_too():
    assert verdict_sentence([row("fc", 10, 20, 1)]) == "The complete iteration was not measured in both. fc +10 ns."
    gone = row("iteration", 10, None, verdict="only before")
    assert verdict_sentence([gone]) == "The complete iteration was not measured in both. No clear change."


def test_much_longer_is_told_in_times_and_from_nothing_in_neither():
    assert verdict_sentence([row("step", 10, 500, 1)]).startswith("Step 50.0 times slower (")
    assert verdict_sentence([row("step", 0, 500, 1)]).startswith("Step slower (+500 ns")


def _table(rows, *, calls=False):
    shown = [c.name for c in COLUMNS if c.name in rows[0] or (calls and c.name.startswith("calls"))]
    return Table(question=diff, arrow=answer_dicts(COLUMNS, rows, shown), note="before: a; after: b.")


def _text(rows, **options):
    options = {"width": 100, **options}
    return [line.text for line in diff_lines(_table(rows, calls=True), Layout(**options))]


STEP = row("device work", 1000, 900, 50, verdict="faster", share=1.0)


def test_changes_carry_their_sign_and_what_was_not_measured_a_dash():
    new = row("gemm", 0, 40, 2, verdict="added", share=-0.4, calls_before=0.0, calls_after=2.0)
    lines = _text([STEP, new, row("late", None, 5, verdict="only after")])
    squeezed = [" ".join(line.split()) for line in lines[2:]]
    assert squeezed[:4] == [
        "name before after change % ± verdict share calls",
        "device work 1.000 µs 900 ns -100 ns -10.0 % 50 ns faster 100.0 % –",
        "gemm 0 ns 40 ns +40 ns – 2 ns added -40.0 % 0 → 2",
        "late – 5 ns – – – only after – –",
    ]


def test_a_change_of_nearly_nothing_is_no_signed_zero():
    text = "\n".join(_text([STEP, row("x", 100000, 99999, 9, share=-0.0001)]))
    assert "-1 ns" in text
    assert "-0.0 %" not in text


def test_lines_fit_and_say_what_they_leave_out():
    long = row("void at::native::elementwise_kernel<128, 4>(int, Array)" * 3, 5, 6, 1)
    for width in (40, 60, 80, 120):
        lines = _text([STEP, long], width=width)
        assert max(map(len, lines)) <= width
    assert any(line.startswith("(more columns: ") for line in _text([STEP, long], width=60))
    assert "(1 more rows)" in _text([STEP, long], max_rows=1)


def test_a_dotted_name_keeps_both_ends():
    path = "Model_0.Encoder_0.Layer_11.Attention_11.SelfAttention_11.Linear_77"
    (line,) = (text for text in _text([STEP, row(path, 5, 6, 1)]) if text.startswith("Model"))
    assert line.startswith("Model_0.Encoder_0.Layer…lfAttention_11.Linear_77  ")


def test_names_from_files_steer_no_terminal():
    lines = _text([STEP, row("a\x1b[31m\nb", 5, 50, 1, share=1.0)])
    assert not any("\x1b" in line or "\n" in line for line in lines)


def node(path, depth, before, after, kind="operator", **more):
    name = path.split(" / ")[-1]
    return row(
        name, before, after, 1, path=path, depth=depth, kind=kind, matched=None,
        calls_before=None, calls_after=None, **more,
    )  # fmt: skip


TREE = [
    node("step", 0, 1000, 1150, "step", share=1.0),
    node("backward", 1, 600, 720, "direction", share=0.8),
    node("backward / a", 2, 300, 400, share=0.67),
    node("backward / b", 2, 200, 215, share=0.1),
    node("backward / c", 2, 100, 105, share=0.03),
    node("forward", 1, 400, 430, "direction", share=0.2),
    node("forward / aten::linear", 2, 400, 430, share=0.2),
    node("forward / aten::linear / aten::addmm", 3, 400, 430, share=0.2),
]


def test_of_a_tree_what_is_not_shown_is_one_row_so_that_sums_can_be_seen():
    short = [(one["name"], one["depth"], one["change_ns"]) for one in rows_in_short(TREE, 4)]
    assert short == [
        ("step", 0, 150),
        ("backward", 1, 120),
        ("a", 2, 100),
        ("(2 others)", 2, 20),
        ("forward", 1, 30),
        ("aten::linear › aten::addmm", 2, 30),
    ]


def test_the_sentence_names_the_deepest_part_that_stands_for_the_change():
    sentence = verdict_sentence(TREE)
    assert sentence == ("Step 15.0 % slower (+150 ns ± 1 ns): backward / a +100 ns, forward / aten::addmm +30 ns.")


def test_a_tree_is_indented():
    lines = [line.text for line in diff_lines(_table(TREE), Layout(120))]
    assert [line[:30].rstrip() for line in lines[3:7]] == ["step", "  backward", "    a", "    b"]


def test_markdown_has_the_sentence_the_rows_and_the_gates_and_takes_no_name_for_its_own():
    table = _table([*TREE[:2], node("backward / kernel<int*>|x", 2, 300, 400, "kernel", share=0.67)])
    gate = {
        "gate": "step_time > +3%", "outcome": "failed", "reason": "", "name": "step", "change_ns": 150,
        "change_ratio": 0.15, "ci95_low_ns": 149, "ci95_high_ns": 151, "verdict": "slower",
    }  # fmt: skip
    lines = markdown_text(replace(table, gates=(gate,)), max_rows=None).splitlines()
    assert lines[0] == "**Step 15.0 % slower (+150 ns ± 1 ns): backward +120 ns.**"
    assert lines[2].startswith("- gate 'step\\_time \\> +3%' failed: +150 ns (+15.0 %)")
    assert lines[4:7] == [
        "| name | before | after | change | % | ± | verdict | share | calls |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
        "| step | 1.000 µs | 1.150 µs | +150 ns | +15.0 % | 1 ns | slower | 100.0 % | – |",
    ]
    assert lines[8].startswith("| &nbsp;&nbsp;&nbsp;&nbsp;&nbsp;&nbsp;kernel\\<int\\*\\>\\|x |")


def test_what_lies_in_a_part_that_only_one_side_has_is_shown_last():
    rows = [
        node("step", 0, 1000, 1100, "step", share=1.0),
        node("old", 1, 500, 0, verdict="removed", share=-5.0),
        node("old / one", 2, 300, 0, "kernel", verdict="removed", share=-3.0),
        node("old / other", 2, 200, 0, "kernel", verdict="removed", share=-2.0),
        node("new", 1, 0, 400, verdict="added", share=4.0),
        node("same", 1, 500, 700, share=2.0),
    ]
    assert [one["name"] for one in rows_in_short(rows, 4)] == ["step", "old", "new", "same"]


def test_the_sentence_goes_no_deeper_than_both_sides_do():
    """The modules that a compiler merged are gone, but what stands in their place is beside them."""
    rows = [
        node("step", 0, 1000, 600, "step", share=1.0, verdict="faster"),
        node("forward", 1, 1000, 600, "direction", share=1.0, verdict="faster"),
        node("forward / fc", 2, 1000, 0, "module", share=2.5, verdict="removed"),
        node("forward / region", 2, 0, 600, "range", share=-1.5, verdict="added"),
    ]
    assert verdict_sentence(rows).endswith(": forward -400 ns.")
