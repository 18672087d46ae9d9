import pytest

from stepscope.api.heaviest_modules import HeavyModule, heaviest_modules
from stepscope.api.trace import Trace
from stepscope.floor.errors import SourceError

MODULES = [
    {"module_id": 0, "path": "Net", "depth": 0},
    {"module_id": 1, "path": "body", "depth": 1, "parent_id": 0},
    {"module_id": 2, "path": "body.fc", "depth": 2, "parent_id": 1},
    {"module_id": 3, "path": "head", "depth": 1, "parent_id": 0},
]


@pytest.fixture
def heaviest(make_store):
    def ask(rows, top=20):
        return heaviest_modules(Trace(make_store(rows)), top=top, source="a.json")

    return ask


def test_modules_come_by_what_they_take_themselves_with_the_times_of_all_in_them(heaviest):
    kernels = [
        {"module_id": 0, "dur_ns": 900, "direction": "forward"},
        {"module_id": 1, "dur_ns": 1, "direction": "forward"},
        {"module_id": 2, "dur_ns": 30, "direction": "forward"},
        {"module_id": 2, "dur_ns": 10, "direction": "backward"},
        {"module_id": 3, "dur_ns": 20, "direction": "forward"},
        {"dur_ns": 500, "direction": "optimizer"},
    ]
    rows = {"module": MODULES, "device_event": kernels}
    found = heaviest(rows)
    assert found.on_device
    assert found.modules == (
        HeavyModule("body.fc", 30, 10),
        HeavyModule("head", 20, None),
        HeavyModule("body", 31, 10),
    )
    assert heaviest(rows, top=1).modules == found.modules[:1]


def test_without_device_work_it_is_host_time(heaviest):
    events = [
        {"id": key, "module_id": key, "kind": "python", "dur_ns": dur, "start_ns": 1000 * key}
        for key, dur in ((2, 5), (3, 7))
    ]
    found = heaviest({"module": MODULES, "host_event": events})
    assert not found.on_device
    assert [module.path for module in found.modules][:2] == ["head", "body.fc"]


def test_of_several_outermost_modules_none_is_the_model(heaviest):
    modules = [*MODULES[:1], {"module_id": 1, "path": "loss", "depth": 0}]
    kernels = [{"module_id": 1, "dur_ns": 5}]
    found = heaviest({"module": modules, "device_event": kernels})
    assert [module.path for module in found.modules] == ["loss", "Net"]


@pytest.mark.parametrize(
    ("paths", "says"),
    [
        ((), "a.json: the recording names no modules"),
        (("Net_0", "Net_0.Linear_1"), r"by their classes \(Net_0.Linear_1\)"),
    ],
)
def test_what_a_model_cannot_be_asked_for_is_refused(heaviest, paths, says):
    modules = [
        {"module_id": key, "path": path, "depth": path.count(".")} for key, path in enumerate(paths)
    ]
    with pytest.raises(SourceError, match=says):
        heaviest({"module": modules, "device_event": [{"dur_ns": 1}]})
