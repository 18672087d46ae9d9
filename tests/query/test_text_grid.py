from dataclasses import replace

import pyarrow as pa
import pytest

from stepscope.base.text_cells import cells
from stepscope.query.declare import Column, Question
from stepscope.query.table import Table
from stepscope.query.text_grid import Line, shortened, value_text, warning_lines

NAME = Column("name", "text", "name")
TOTAL = Column("total_ns", "int", "time", "ns")
HIDDEN = Column("stream", "int", "stream", visible=False)
QUESTION = Question(name="toy", asks="Which?", answer=lambda scope: None, rests_on=(), columns=(NAME, TOTAL, HIDDEN))


def table_of(*rows, question=QUESTION, **more) -> Table:
    names = [c.name for c in question.columns]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    return Table(question, pa.table([pa.array(list(c)) for c in columns], names=names), **more)


def grid_lines(table: Table, *, width: int, most: int | None, whole: bool = False) -> list[Line]:
    return table.lines(width=width, limit=most, complete=whole)


def grid_text(table: Table, *, width: int, most: int) -> str:
    """As the prompt shows it: no line is wider than the width."""
    lines = table.lines(width=width, limit=most)
    return "\n".join(shortened(line.text, width) for line in lines)


def check(severity: str, rank: int = 0) -> dict:
    return {"check": f"{severity}_check", "severity": severity, "explanation": "because", "rank": rank, "count": 1}


def test_names_are_left_and_numbers_right_with_their_units():
    assert grid_text(table_of(("gemm", 1_500, 7), ("add", None, 7)), width=80, most=20) == (
        "Which?\nname     total\ngemm  1.500 µs\nadd          –\n(more columns: stream)"
    )


def test_letters_that_take_two_columns_of_a_terminal_are_counted_as_two():
    table = table_of(("行列" * 20, 1_500, 7), ("e\N{COMBINING ACUTE ACCENT}mu", 1_000, 7))
    lines = [line.text for line in table.lines(width=36, limit=None)][1:4]
    assert lines == [
        "name                           total",
        "行列行列行列行列…行列行列   1.500 µs",
        "e\N{COMBINING ACUTE ACCENT}mu                         1.000 µs",
    ]
    assert {cells(line) for line in lines} == {36}


def test_shares_are_drawn_where_lines_are_wide():
    share = Column("share_ratio", "float", "share", "ratio")
    table = table_of(
        ("gemm", 0.5, 1), ("add", 0.125, 2), ("relu", 0.0, 3), ("none", None, 4),
        question=replace(QUESTION, columns=(NAME, share, Column("calls", "int", "calls"))),
    )  # fmt: skip
    wide = [line.text for line in table.lines(width=110, limit=None, bars=True)]
    assert wide[1:] == [
        "name   share            calls", "gemm  50.0 %  ████████      1", "add   12.5 %  ██            2",
        "relu   0.0 %                3", "none       –                4",
    ]  # fmt: skip
    for asked in ({"width": 109, "bars": True}, {"width": 200}):
        plain = [line.text for line in table.lines(limit=None, **asked)]
        assert plain[2] == "gemm  50.0 %      1"


def test_no_line_is_wider_than_asked():
    table = table_of(*[("void kernel<" + "x" * 200 + ">", 5, 7)] * 30, checks=(check("error"),))
    for width in (20, 40, 80, 120):
        assert max(map(len, grid_text(table, width=width, most=20).splitlines())) <= width


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("void at::native::elementwise_kernel<128, 4>", 24, "void at::native:…128, 4>"),
        ("short", 24, "short"),
        ("/data/runs/2026/worker0.pt.trace.json.gz", 24, "…orker0.pt.trace.json.gz"),
        ("transformers/models/bert/modeling_bert.py(364): forward", 32, "…/modeling_bert.py(364): forward"),
    ],
)
def test_a_long_name_keeps_both_ends_a_path_its_end_and_a_frame_its_function(text, width, shown):
    assert shortened(text, width) == shown


def test_rows_left_out_are_counted():
    lines = grid_text(table_of(*[("k", 1, 1)] * 1025), width=80, most=20).splitlines()
    assert lines[-2] == "(1\u202f005 more rows)"


def test_columns_that_were_asked_for_all_show():
    text = [line.text for line in grid_lines(table_of(("k" * 100, 1, 7)), width=40, most=None, whole=True)]
    assert text[1].split() == ["name", "total", "stream"]


def test_an_answer_that_a_check_bears_on_is_marked_with_the_reason():
    table = table_of(("k", 1, 1), checks=(check("note"), check("warning")))
    lines = grid_lines(table, width=80, most=20)
    assert lines[0].text == "⚠ Which?"
    assert [(line.text, line.style) for line in lines[-2:]] == [
        ("⚠ warning_check: because", "warning"),
        ("· note_check: because", "note"),
    ]


def test_a_note_alone_marks_nothing():
    assert grid_lines(table_of(("k", 1, 1), checks=(check("note"),)), width=80, most=1)[0].text == "Which?"


def test_checks_of_several_ranks_say_which():
    table = table_of(("k", 1, 1), checks=(check("error", 0), check("error", 3)))
    last = grid_lines(table, width=80, most=1)[-1]
    assert last.text == "⚠ error_check (rank 0, 3): because"


def test_an_empty_answer_shows_its_note_and_no_head():
    assert grid_text(table_of(note="Nothing was recorded."), width=80, most=20) == ("Which?\nNothing was recorded.")


def test_a_name_from_a_file_cannot_steer_the_terminal():
    assert "\x1b" not in grid_text(table_of(("\x1b[2J", 1, 1)), width=80, most=1)


def test_a_tree_is_indented_by_depth():
    columns = (Column("path", "text", "path"), Column("depth", "int", "depth", visible=False))
    tree = replace(QUESTION, columns=columns, drawing="tree")
    text = grid_text(table_of(("a", 0), ("b", 1), question=tree), width=80, most=9)
    assert text.splitlines()[2:4] == ["a", "  b"]


def test_sentences_are_wrapped_and_not_shortened():
    columns = (Column("check", "text", "name"), Column("meaning", "text", "words"))
    prose = replace(QUESTION, columns=columns, drawing="text")
    sentence = "one two three four five six seven eight nine ten eleven twelve"
    text = grid_text(table_of(("c", sentence), question=prose), width=40, most=9)
    assert "…" not in text
    assert text.split()[3:] == ["c", *sentence.split()]


def test_a_command_of_ours_is_in_one_piece_however_long():
    columns = (NAME, Column("next", "text", "words", advises=True))
    prose = replace(QUESTION, columns=columns, drawing="text")
    command = f"`stepscope idle {'a' * 60} --by operator`"
    words = f"Look at {command}, then {'b' * 40}"
    lines = grid_lines(table_of(("c", words), question=prose), width=40, most=9)
    assert [line.text for line in lines[2:]] == [
        "c     Look at", f"      {command},", "      then", f"      {'b' * 34}", "      bbbbbb",
    ]  # fmt: skip


def test_a_list_of_names_is_no_sentence():
    columns = (NAME, Column("affects", "text", "names"), Column("meaning", "text", "words"))
    prose = replace(QUESTION, columns=columns, drawing="text")
    table = table_of(("c", ",".join(["names"] * 20), "one two three"), question=prose)
    assert grid_text(table, width=36, most=9).splitlines()[1:] == [
        "name  meaning", "c     one two three", "(more columns: affects)",
    ]  # fmt: skip


def test_the_sentence_stays_and_what_says_nothing_goes_first():
    columns = (NAME, TOTAL, Column("rank", "int", "rank"), Column("meaning", "text", "words"))
    prose = replace(QUESTION, columns=columns, drawing="text")
    sentence = "one two three four five six seven eight nine ten"
    table = table_of(("c", None, 1, sentence), question=prose)
    assert grid_text(table, width=38, most=9).splitlines() == [
        "Which?", "name  rank  meaning", "c        1  one two three four five",
        "            six seven eight nine ten", "(more columns: total_ns)",
    ]  # fmt: skip
    narrow = grid_text(table, width=32, most=9).splitlines()
    assert narrow[1] == "name  meaning"
    assert narrow[-1] == "(more columns: total_ns, rank)"


def test_a_column_that_does_not_fit_leaves_no_empty_lines():
    columns = (Column("check", "text", "name"), TOTAL, Column("meaning", "text", "words"))
    prose = replace(QUESTION, columns=columns, drawing="text")
    text = grid_text(table_of(("c", 5, "word " * 20), question=prose), width=30, most=9)
    assert text.splitlines() == ["Which?", "check  total", "c       5 ns", "(more columns: meaning)"]


@pytest.mark.parametrize(
    ("value", "column", "text"),
    [
        (None, TOTAL, "–"), (0, TOTAL, "0 ns"), (float("nan"), Column("x", "float", "x"), "–"),
        (True, Column("x", "bool", "x"), "yes"), (0.25, Column("x_ratio", "float", "x", "ratio"), "25.0 %"),
        (2048, Column("x_bytes", "int", "x", "bytes"), "2.000 KiB"), (12345, Column("stream", "int", "x"), "12345"),
        (1.23456, Column("x", "float", "x"), "1.235"),
    ],
)  # fmt: skip
def test_values_are_read_with_their_unit(value, column, text):
    assert value_text(value, column) == text


def test_a_time_and_its_share_have_different_heads():
    from stepscope.query.declare import Column
    from stepscope.query.text_grid import heads

    columns = [
        Column("used_ns", "int", "time used", "ns"), Column("used_ratio", "float", "its share", "ratio"),
        Column("idle_ratio", "float", "share idle", "ratio"), Column("device", "int", "number of it"),
        Column("device_bytes", "int", "its memory", "bytes"),
    ]  # fmt: skip
    assert heads(columns) == ["used", "used share", "idle", "device", "device bytes"]


def test_where_not_all_fit_sums_are_shown_before_their_parts():
    columns = (
        Column("step", "int", "its number"),
        *(Column(f"part{n}_ns", "int", "a part", "ns") for n in range(6)),
        Column("total_ns", "int", "their sum", "ns", sums=True),
    )
    table = table_of((3, 1, 2, 3, 4, 5, 6, 21), question=replace(QUESTION, columns=columns))
    lines = grid_text(table, width=32, most=9).splitlines()
    assert lines[1:3] == ["step  part0  part1  part2  total", "   3   1 ns   2 ns   3 ns  21 ns"]


def test_hidden_columns_are_listed_in_full():
    columns = tuple(Column(f"a_long_name_{n}_ns", "int", "a part", "ns") for n in range(9))
    table = table_of(tuple(range(9)), question=replace(QUESTION, columns=columns))
    listed = " ".join(grid_text(table, width=40, most=9).splitlines()[3:])
    assert [c.name for c in columns[2:] if c.name not in listed] == []


def test_kernels_that_differ_in_the_middle_of_their_names_look_different():
    columns = (Column("name", "text", "kernel", kernels=True), TOTAL)
    names = [f"void cutlass::Kernel2<cutlass_80_{tile}_tn_align8_and_more>(x::Params)" for tile in "ab"]
    table = table_of(*((name, 5) for name in names), question=replace(QUESTION, columns=columns))
    shown = grid_text(table, width=40, most=9).splitlines()[2:]
    assert len(set(shown)) == 2
    assert all(len(line) <= 40 and "void" not in line for line in shown)
    assert names[0] in table.to_csv()


def test_other_texts_that_differ_in_their_middle_look_different_too():
    counters = [f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in ("dadd", "fadd")]
    table = table_of(*((name, 5, 7) for name in counters))
    first, second = grid_text(table, width=40, most=9).splitlines()[2:4]
    assert first != second
    assert "dadd" in first
    assert "fadd" in second


def test_a_column_that_is_shown_where_it_varies():
    span = Column("span", "int", "which recording", visible="varying")
    question = replace(QUESTION, columns=(span, TOTAL))
    assert grid_text(table_of((0, 5), (0, 6), question=question), width=40, most=9).splitlines()[1] == "total"
    assert grid_text(table_of((0, 5), (1, 6), question=question), width=40, most=9).splitlines()[1] == "span  total"


def found(rank: int, explanation: str, name: str = "c", count: int = 1, severity: str = "note"):
    return {"rank": rank, "check": name, "severity": severity, "count": count, "explanation": explanation}


def warnings(*checks: dict) -> list[str]:
    return [line.text for line in warning_lines(checks, 200)]


def test_what_is_the_same_on_several_ranks_is_said_once():
    checks = [found(0, "cut"), found(1, "cut"), found(2, "cut"), found(5, "cut"), found(3, "none")]
    assert warnings(*checks) == ["· c (rank 0-2, 5): cut", "· c (rank 3): none"]
    assert warnings(checks[0]) == ["· c: cut"]


def test_what_differs_between_ranks_in_figures_is_said_of_the_worst():
    def lost(rank: int, count: int, severity: str = "note"):
        text = f"{count} of 2023 launches ({count / 20.23:.1f} %) have no kernel: work is missing."
        return found(rank, text, count=count, severity=severity)

    worst = "18 of 2023 launches (0.9 %) have no kernel: work is missing."
    assert warnings(lost(0, 2), lost(1, 18)) == [f"· c (rank 1; other figures on rank 0): {worst}"]
    assert warnings(*[lost(rank, 18 if rank in (5, 9) else rank % 3) for rank in range(64)]) == [
        f"· c (rank 5, 9; other figures on rank 0-4, 6-8, 10-63): {worst}"
    ]
    assert warnings(lost(0, 50), lost(1, 18, "warning")) == [f"⚠ c (rank 1; other figures on rank 0): {worst}"]


def test_figures_of_several_recordings_of_a_rank_are_counted_by_recording():
    spans = [found(0, f"{count} events overlap.", count=count) for count in (3, 7, 5)]
    assert warnings(*spans) == ["· c (other figures in 2 other recordings): 7 events overlap."]
    assert warnings(*spans[:2], found(1, "9 events overlap.", count=9)) == [
        "· c (rank 1; other figures in 2 other recordings): 9 events overlap."
    ]


def test_checks_of_jobs_whose_names_differ_in_a_number_are_not_joined():
    for one, other in (("run1", "run2"), ("1", "2"), ("run 1", "run 2"), ("a/1.5", "a/2.5")):
        assert warnings(found(0, f"{one}: 3 lost."), found(0, f"{other}: 4 lost.")) == [
            f"· c: {one}: 3 lost.",
            f"· c: {other}: 4 lost.",
        ]


def test_of_many_checks_the_worst_are_shown_and_the_others_named():
    severe = [found(0, "x", name, 1, "error") for name in "abcdef"]
    notes = [found(0, "cut", name) for name in "gh"]
    assert warnings(*notes, *severe) == [
        *(f"⚠ {name}: x" for name in "abcde"),
        "3 more (f, g, h): `stepscope checks SRC`",
    ]


def test_several_notes_are_named_in_a_line_and_a_lone_one_is_told():
    error, notes = found(0, "x", "a", 1, "error"), [found(0, "cut", name) for name in "bc"]
    assert warnings(*notes) == ["2 notes on the recording (b, c): `stepscope checks SRC`"]
    assert warnings(error, *notes) == ["⚠ a: x", "2 more (b, c): `stepscope checks SRC`"]
    assert warnings(error, notes[0]) == ["⚠ a: x", "· b: cut"]


def test_a_check_of_an_answer_over_ranks_names_its_rank_and_one_of_the_folder_none() -> None:
    checks = [
        {"check": name, "severity": "warning", "rank": 3, "count": 1, "explanation": "x"}
        for name in ("truncated", "identical_files")
    ]
    lines = [line.text for line in warning_lines(checks, 200, several=True)]
    assert lines == ["⚠ truncated (rank 3): x", "⚠ identical_files: x"]
