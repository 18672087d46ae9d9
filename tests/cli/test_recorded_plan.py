"""`stepscope plan` of a recording."""

import pytest

MODULES = [
    {"module_id": 0, "path": "Net", "depth": 0},
    {"module_id": 1, "path": "body", "depth": 1, "parent_id": 0},
    {"module_id": 2, "path": "body.fc", "depth": 2, "parent_id": 1},
    {"module_id": 3, "path": "head", "depth": 1, "parent_id": 0},
]


@pytest.fixture
def planned(run, make_store):
    """The lines of the plan after those that name no module."""

    def ask(rows, *options):
        done = run("plan", make_store(rows), *options)
        assert done.code == 0, done.err
        lines = done.out.splitlines()
        return [line.split() for line in lines[lines.index('    "optimizer.step",') + 1 : -1]]

    return ask


def test_modules_come_by_what_they_take_themselves_with_the_times_of_all_in_them(planned):
    kernels = [
        {"module_id": 0, "dur_ns": 900, "direction": "forward"},
        {"module_id": 1, "dur_ns": 1, "direction": "forward"},
        {"module_id": 2, "dur_ns": 30, "direction": "forward"},
        {"module_id": 2, "dur_ns": 10, "direction": "backward"},
        {"module_id": 3, "dur_ns": 20, "direction": "forward"},
        {"dur_ns": 500, "direction": "optimizer"},
    ]
    rows = {"module": MODULES, "device_event": kernels}
    found = planned(rows)
    assert found == [
        ['"body.fc.forward",', "#", "30", "ns"],
        ['"body.fc.backward",', "#", "10", "ns"],
        ['"head.forward",', "#", "20", "ns"],
        ['"body.forward",', "#", "31", "ns"],
        ['"body.backward",', "#", "10", "ns"],
    ]
    assert planned(rows, "--top", "1") == found[:2]


def test_a_plan_is_complete_and_says_what_its_times_are(run, make_store):
    events = [
        {"id": key, "module_id": key, "kind": "python", "dur_ns": dur, "start_ns": 1000 * key}
        for key, dur in ((2, 5), (3, 7))
    ]
    store = make_store({"module": MODULES, "host_event": events})
    done = run("plan", store, "--repetitions", "7", "--top", "1")
    assert done.out.splitlines() == [
        f"# The modules of {store}, those with the most host time of their own first.",
        "# Times are all host time over the complete recording, with that of the modules inside.",
        "warmup = 10",
        "repetitions = 7",
        "events = [",
        '    "input_wait",',
        '    "forward",',
        '    "backward",',
        '    "optimizer.step",',
        '    "head.forward",                             # 7 ns',
        "]",
    ]


def test_of_several_outermost_modules_none_is_the_model(planned):
    modules = [*MODULES[:1], {"module_id": 1, "path": "loss", "depth": 0}]
    kernels = [{"module_id": 1, "dur_ns": 5, "direction": "forward"}]
    found = planned({"module": modules, "device_event": kernels})
    assert [line[0] for line in found] == ['"loss.forward",', '"Net.forward",']


@pytest.mark.parametrize(
    ("paths", "says"),
    [((), "the recording names no modules"), (("Net_0", "Net_0.Linear_1"), "by their classes (Net_0.Linear_1)")],
)
def test_a_recording_that_names_no_modules_of_the_model_gives_no_plan(run, make_store, paths, says):
    modules = [{"module_id": key, "path": path, "depth": path.count(".")} for key, path in enumerate(paths)]
    done = run("plan", make_store({"module": modules, "device_event": [{"dur_ns": 1}]}))
    assert done.code == 1
    assert says in done.err
    assert "[no-modules]" in done.err
