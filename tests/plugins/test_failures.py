"""A plug-in that fails is named once and left out; everything else goes on."""

import pytest

import stepscope
import stepscope.api.trace  # reserves names, as commands do
from stepscope.cli.main import COMMANDS
from stepscope.cli.question_command import question_command
from stepscope.costs import model_of, work
from stepscope.costs.calibration import known_devices
from stepscope.findings import rules
from stepscope.query.declare import RESERVED, SHARED, Column, Parameter, question
from stepscope.questions import OURS, all_questions, find, names

QUESTION = """
import pyarrow as pa
from stepscope.plugin import Column, question

@question({name!r}, "What?", (Column("n", "int", "a number"),), rests_on=())
def asked(scope):
    "Nothing."
    {body}
"""


def of(name: str = "odd", body: str = "return pa.table({'n': [1]})") -> str:
    return QUESTION.format(name=name, body=body)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("", "AttributeError: module 'broken_example' has no attribute 'asked'"),
        ("asked = 7", "TypeError: it gives a int, not a Question"),
        (of("kernels"), "ValueError: 'kernels' is taken by StepScope"),
        (of("sql"), "ValueError: 'sql' is taken by StepScope"),
        (of("close"), "ValueError: 'close' is taken by StepScope"),
        (of("Two words"), "ValueError: 'Two words' is not a name for a question: write it like"),
        ("def asked(", "SyntaxError: "),
        (
            "from stepscope.plugin import question\nasked = question('odd', 'What?', ('n',), rests_on=())(print)",
            "TypeError: odd: 'n' is no Column of a known type",
        ),
        (of().replace("rests_on=()", "rests_on=('luck',)"), "ValueError: odd rests on luck, which is"),
        (of().replace("rests_on=()", "rests_on=(), drawing='overview'"), "ValueError: 'overview' draws"),
        (of().replace("rests_on=()", "rests_on=(), recordings='two'"), "ValueError: a plug-in's question"),
    ],
    ids=lambda text: " ".join(text.split())[:40],
)
def test_one_that_cannot_be_loaded_is_left_out(broken, capsys, source, reason):
    broken(source, questions="asked")
    assert names() == OURS
    assert names() == OURS
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stepscope: plug-in it (stepscope.questions) of broken-example 1.0 is left out: " + reason)


def test_of_two_with_one_name_the_first_is_kept(broken, use, example, capsys, tmp_path):
    broken(of("waits"), questions="asked")
    use(example)
    assert names() == (*OURS, "waits")
    assert find("waits").added_by.package == "broken-example"
    assert "'waits' is taken by broken-example" in capsys.readouterr().err


def test_what_it_prints_is_no_part_of_an_answer(broken, kineto, capsys):
    broken(of(body="print('asked'); return pa.table({'n': [1]})") + "\nprint('hello')", questions="asked")
    with stepscope.open(kineto, cache=False) as trace:
        assert trace.odd().rows() == [{"n": 1}]
    assert capsys.readouterr() == ("", "hello\nasked\n")


@pytest.fixture
def kineto(tmp_path):
    path = tmp_path / "one.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "mylib::odd", "pid": 1, "tid": 1, '
        '"ts": 1, "dur": 20, "args": {"Input Dims": [[4]], "Input type": ["float"]}}]}'
    )
    return path


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return scope.sql('SELECT nothing')", "BinderException: "),
        ("return pa.table({'m': [1]})", "ValueError: odd does not declare m"),
        ("return None", "AttributeError: "),
    ],
)
def test_a_question_that_fails_is_an_error_that_names_it(broken, kineto, body, reason):
    broken(of(body=body), questions="asked")
    with stepscope.open(kineto, cache=False) as trace:
        for ask in (trace.odd, lambda: trace.sql("FROM answer.odd")):
            with pytest.raises(stepscope.StepScopeError) as caught:
                ask()
            assert caught.value.message.startswith(
                f"plug-in it (stepscope.questions) of broken-example 1.0 failed: {reason}"
            )
            assert caught.value.slug == "plug-in-failed"
        assert len(trace.operators()) == 1


def test_a_failing_package_changes_no_exit_code(broken, spawn, kineto):
    folder = broken("1 / 0", questions="x", formats="x", operators="x", rules="x", devices="x")
    done = spawn(folder, "-m", "stepscope", "operators", str(kineto))
    assert (done.returncode, done.stderr) == (0, "")
    done = spawn(folder, "-m", "stepscope", "questions")
    assert done.returncode == 0
    assert done.stderr.count("is left out") == 1


FORMAT = """
from stepscope.plugin import READER_TABLES, FileFacts, Format, RankTables, ReadReport
import pyarrow as pa

ROW = dict(category="kernel", kind="computation", name="k", device=0, stream=7, start_ns=0, dur_ns=1)

def rows(**changes):
    return pa.Table.from_pylist([ROW | changes], schema=READER_TABLES["device_event"])

def read(member, options):
    {read}

def sniff(head):
    {sniff}

FORMAT = Format("odd", "odd files", sniff, lambda member: FileFacts(), read)
"""


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return 7", "TypeError: it gives a int, not a RankTables"),
        ("return RankTables(FileFacts(), ReadReport(), kernels=None)", "TypeError: readers fill no table kernels"),
        (
            "return RankTables(FileFacts(), ReadReport(), device_event=rows().select(['name', 'kind']))",
            "ValueError: table device_event lacks category, ",
        ),
        (
            "return RankTables(FileFacts(), ReadReport(), device_event=rows(start_ns=None))",
            "ValueError: device_event.start_ns is NULL in 1 rows",
        ),
        (
            "return RankTables(FileFacts(), ReadReport(), device_event=rows(dur_ns=-1))",
            "ValueError: device_event.dur_ns is -1, beyond 0 to ",
        ),
        (
            "return RankTables(FileFacts(), ReadReport(), device_event=rows(start_ns=1 << 62))",
            f"ValueError: device_event.start_ns is {1 << 62}, beyond ",
        ),
        (
            "return RankTables(FileFacts(), ReadReport(), device_event=rows(collective_id=3))",
            "ValueError: device_event.collective_id is 3, beyond 0 to -1 rows of collective_args",
        ),
    ],
)
def test_a_reader_that_fails_names_the_file_and_itself(broken, tmp_path, read, reason):
    broken(FORMAT.format(read=read, sniff="return head.startswith(b'odd')"), formats="FORMAT")
    (tmp_path / "some.odd").write_text("odd")
    with pytest.raises(stepscope.StepScopeError) as caught:
        stepscope.open(tmp_path / "some.odd", cache=False)
    assert caught.value.message.startswith(
        f"{tmp_path / 'some.odd'}: plug-in it (stepscope.formats) of broken-example 1.0 failed: {reason}"
    )


def test_a_format_that_cannot_look_at_a_file_is_left_out(broken, kineto, tmp_path, capsys):
    broken(FORMAT.format(read="return None", sniff="return 1 / 0"), formats="FORMAT")
    (kineto.parent / "a.csv").write_text("a,b\n1,2\n")
    (kineto.parent / "b.csv").write_text("a,b\n1,2\n")
    with stepscope.open(kineto.parent, cache=False) as trace:
        assert len(trace.operators()) == 1
    assert capsys.readouterr().err.count("is left out: ZeroDivisionError") == 1


MODEL = """
from stepscope.plugin import Model, Work

def count(call, conventions):
    {body}

MODEL = Model({formula!r}, ({operator!r},), count)
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return 1 / 0", "ZeroDivisionError: division by zero"),
        ("return 5", "TypeError: it gives a int, not a Work"),
        ("return Work('elementwise.odd', 1.5, 1, 1, 'float32')", "TypeError: flops is 1.5, which is not an integer"),
        ("return Work('odd.odd', 1, 1, 1, 'float32')", "ValueError: 'odd' is not a family of formulas"),
    ],
)
def test_a_model_that_fails_counts_nothing(broken, capsys, body, reason):
    broken(MODEL.format(body=body, formula="elementwise.odd", operator="mylib::odd"), operators="MODEL")
    assert work("mylib::odd", "[[4]]", '["float"]') is None
    assert work("mylib::odd", "[[5]]", '["float"]') is None
    assert capsys.readouterr().err.count(f"is left out: {reason}") == 1


def test_a_model_of_our_operators_or_of_no_family_is_left_out(broken, capsys):
    broken(MODEL.format(body="return None", formula="odd.odd", operator="mylib::odd"), operators="MODEL")
    assert model_of("mylib::odd") is None
    assert "'odd' is not a family of formulas" in capsys.readouterr().err


def test_a_model_cannot_replace_ours(broken, capsys):
    broken(MODEL.format(body="return None", formula="gemm.odd", operator="aten::mm"), operators="MODEL")
    assert model_of("mylib::other") is None
    assert "'aten::mm' is taken by StepScope" in capsys.readouterr().err


RULE = """
from stepscope.plugin import Finding, rule

@rule({id!r}, "Nothing.")
def odd(facts):
    {body}

def finding(**changes):
    return Finding(**(dict(title="t", metric="m", value=1, unit="ns", advice="a", query="q") | changes))
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("yield finding(); 1 / 0", "ZeroDivisionError: division by zero"),
        ("return 7", "TypeError: 'int' object is not iterable"),
        ("yield 7", "TypeError: it gives a int, not a Finding"),
        ("yield finding(value='much')", "TypeError: must be real number, not str"),
        ("yield finding(value=float('nan'))", "ValueError: its finding has a number that is none"),
        ("yield finding(evidence=({'a': {1}},))", "TypeError: Object of type set is not JSON"),
        ("yield finding(title=None)", "TypeError: it gives a NoneType, not a str"),
        ("yield finding(role='loss')", "ValueError: its finding is a loss; a plug-in's is a remedy"),
    ],
)
def test_a_rule_that_fails_finds_nothing(broken, kineto, capsys, body, reason):
    with stepscope.open(kineto, cache=False) as trace:
        expected = trace.findings().rows()
        broken(RULE.format(id="odd", body=body), rules="odd")
        assert trace.findings().rows() == expected
        assert trace.findings(id="odd").rows() == []
    assert capsys.readouterr().err.count(f"is left out: {reason}") == 1


def test_a_rule_cannot_replace_ours(broken, capsys):
    broken(RULE.format(id="amp-off", body="yield"), rules="odd")
    assert [rule.id for rule in rules.all_rules()] == list(rules.OURS)
    assert "'amp-off' is taken by StepScope" in capsys.readouterr().err


def test_a_rule_on_evidence_that_no_check_knows_is_left_out(broken, capsys):
    source = RULE.format(id="odd", body="yield").replace('"Nothing."', '"Nothing.", rests_on=("luck",)')
    broken(source, rules="odd")
    assert [rule.id for rule in rules.all_rules()] == list(rules.OURS)
    assert "ValueError: odd rests on luck, which is not a kind of evidence" in capsys.readouterr().err


def test_a_device_file_that_is_wrong_is_left_out(broken, capsys):
    broken(
        "from stepscope.plugin import parse_hardware\nDEVICES = parse_hardware('[[device]]\\nname = 3')",
        devices="DEVICES",
    )
    assert known_devices().find("Some New Device") is None
    assert "is left out: UsageError: the hardware file is wrong" in capsys.readouterr().err


def test_names_that_mean_something_else_are_taken():
    assert {*COMMANDS, "ask", "close", "store", "ranks"} <= RESERVED
    assert RESERVED.isdisjoint(OURS)


def test_no_parameter_can_hide_what_every_question_has():
    for declared in (found for found in all_questions() if found.recordings == "one"):
        own = {parameter.name for parameter in declared.parameters}
        shared = {option.name for option in question_command(declared).params} - own
        assert shared <= SHARED
    columns, parameters = (Column("n", "int", ""),), (Parameter("rank", "int", ""),)
    with pytest.raises(ValueError, match="every question has rank already"):
        question("odd", "?", columns, rests_on=(), parameters=parameters)
