import pytest
from tests.literal import literal_store

from stepscope.api.comparisons import scaling
from stepscope.api.trace import Trace
from stepscope.base.errors import SourceError, UsageError
from stepscope.report.page_data import reply
from stepscope.report.renderers import Layout
from stepscope.report.scaling_text import scaling_lines, stopped

pytestmark = pytest.mark.slow


@pytest.fixture
def run():
    """A run in memory: label → the durations of each rank, one list per rank."""
    traces = []

    def make(labels, **more):
        rows = [
            {
                "kind": "iteration" if label == "iteration" else "event",
                "label": label,
                "rank": rank,
                "dur_ns": dur,
                "start_index": 2 * place,
                "end_index": 2 * place + 1,
            }
            for place, (label, ranks) in enumerate(labels.items())
            for rank, durations in enumerate(ranks)
            for dur in durations
        ]
        traces.append(Trace(literal_store({"inline_timing": rows, **more})))
        return traces[-1]

    yield make
    for trace in traces:
        trace.close()


def _of(table, *columns):
    return [tuple(row[column] for column in columns) for row in table.rows()]


def test_weak_and_strong_efficiency_are_against_the_run_with_the_fewest_ranks(run):
    two = run({"iteration": [[100], [100]], "fc": [[40], [60]]})
    one = run({"iteration": [[80]], "fc": [[40]]})
    table = scaling([two, one], names=["two", "one"])
    columns = ("label", "run", "ranks", "average_ns", "max_ns", "slowest_rank")
    assert _of(table, *columns) == [
        ("iteration", "one", 1, 80.0, 80.0, 0),
        ("iteration", "two", 2, 100.0, 100.0, 0),
        ("fc", "one", 1, 40.0, 40.0, 0),
        ("fc", "two", 2, 50.0, 60.0, 1),
    ]
    assert _of(table, "weak_efficiency_ratio", "strong_efficiency_ratio") == [
        (1.0, 1.0),
        (0.8, 0.4),
        (1.0, 1.0),
        (0.8, 0.4),
    ]


def test_a_label_stops_where_its_efficiency_is_first_too_low(run):
    runs = [
        run({"fc": [[100]], "reduce": [[100]]}),
        run({"fc": [[100]] * 2, "reduce": [[110]] * 2}),
        run({"fc": [[105]] * 4, "reduce": [[150]] * 4}),
        run({"fc": [[110]] * 8, "reduce": [[150]] * 8}),
    ]
    assert stopped(scaling(runs).rows()) == {"reduce": 4}
    assert stopped(scaling(runs, below=0.95).rows()) == {"fc": 8, "reduce": 2}


def test_a_label_that_recovers_on_more_ranks_does_not_stop(run):
    runs = [run({"fc": [[time]] * ranks}) for time, ranks in ((100, 1), (200, 2), (101, 4), (150, 8), (160, 16))]
    assert stopped(scaling(runs).rows()) == {"fc": 8}
    recovered = scaling(runs[:3])
    assert stopped(recovered.rows()) == {}
    words = [line.text for line in scaling_lines(recovered, Layout(100))]
    assert "Below 80.0 %, and on more ranks above it again: fc at 2 ranks." in words
    assert not any("Undecided" in line for line in words)


def test_strong_scaling_asks_for_shorter_times_on_more_ranks(run):
    runs = [run({"halved": [[100]], "same": [[100]]}), run({"halved": [[50]] * 2, "same": [[100]] * 2})]
    assert stopped(scaling(runs, mode="strong").rows()) == {"same": 2}
    assert stopped(scaling(runs, mode="weak").rows()) == {}


def test_noise_alone_stops_no_label(run):
    """The means are 100 and 140, but the interval of the second reaches from below 0 to 600."""
    noisy = [10, 20, 390]
    runs = [run({"fc": [[99, 100, 101]]}), run({"fc": [noisy, noisy]})]
    table = scaling(runs)
    efficiency = table.rows()[1]["weak_efficiency_ratio"]
    assert efficiency < 0.8
    assert stopped(table.rows()) == {}
    words = " ".join(line.text for line in scaling_lines(table, Layout(100)))
    assert f"within its interval): fc {efficiency:.1%}".replace("%", " %") in words
    assert "No label stops scaling" not in words


def test_what_may_be_below_the_limit_is_undecided_although_its_mean_is_above(run):
    runs = [run({"fc": [[99, 100, 101]]}), run({"fc": [[90, 100, 140]] * 2})]
    table = scaling(runs)
    assert table.rows()[1]["efficiency_ratio"] > 0.8 > table.rows()[1]["efficiency_low_ratio"]
    words = " ".join(line.text for line in scaling_lines(table, Layout(200)))
    assert "Undecided (weak-scaling efficiency, 80.0 % lies within its interval): fc 90.9 %" in words
    assert "No label stops scaling" not in words


def test_the_size_of_the_job_counts_and_not_the_ranks_that_were_recorded(run):
    four = run({"fc": [[100]]}, rank=[{"rank": 0, "world_size": 4}])
    table = scaling([run({"fc": [[100]]}), four])
    assert _of(table, "run", "ranks") == [("run 1", 1), ("run 2", 4)]


def test_a_label_that_the_smallest_run_lacks_has_no_efficiency(run):
    table = scaling([run({"fc": [[100]]}), run({"reduce": [[5]] * 2})])
    assert _of(table, "label", "run", "weak_efficiency_ratio", "stops_at_ranks") == [
        ("fc", "run 1", 1.0, None),
        ("reduce", "run 2", None, None),
    ]


def test_runs_with_phases_alone_are_compared_by_them():
    def run_of(ranks, step, backward):
        rows = [
            {"rank": rank, "phase": phase, "mean_ns": mean}
            for rank in range(ranks)
            for phase, mean in (("step", step), ("backward", backward))
        ]
        return Trace(literal_store({"phase": rows}))

    with run_of(1, 100.0, 50.0) as one, run_of(2, 120.0, 70.0) as two:
        table = scaling([one, two])
    assert _of(table, "label", "ranks", "average_ns") == [
        ("iteration", 1, 100.0),
        ("iteration", 2, 120.0),
        ("backward", 1, 50.0),
        ("backward", 2, 70.0),
    ]
    assert stopped(table.rows()) == {"backward": 2}


def test_profiles_in_memory_are_runs_too():
    event = {"label": "fc", "start_index": 0, "end_index": 1, "avg_measured_time_ms": 0.5}
    profile = {"host_name": "h", "timeline": {"device_0": {"stream_0": [event]}}}
    table = scaling([[profile], [profile, profile]])
    assert _of(table, "label", "ranks", "average_ns") == [("fc", 1, 5e5), ("fc", 2, 5e5)]


def test_several_events_of_one_label_are_told_apart(run):
    rows = [{"label": "fc", "occurrence": number, "dur_ns": 5 + number} for number in (0, 1)]
    with Trace(literal_store({"inline_timing": rows})) as trace:
        assert _of(scaling([trace]), "label", "average_ns") == [("fc#0", 5.0), ("fc#1", 6.0)]


def test_a_run_without_measurements_is_named():
    with (
        Trace(literal_store({"host_event": [{"name": "aten::mm"}]})) as trace,
        pytest.raises(SourceError, match="before: no inline measurements, phases or traced steps") as refused,
    ):
        scaling([trace], names=["before"])
    assert "--nvtx, whose ranges mark steps" in refused.value.hint


@pytest.mark.parametrize(
    ("sources", "options"),
    [
        ([], {}),
        ("runs/1node", {}),
        (["a", "b"], {"names": ["a"]}),
        (["a"], {"mode": "both"}),
        (["a"], {"names": "bc", "mode": "both"}),
        (["a"], {"columns": ["lable"]}),
    ],
)
def test_a_call_that_cannot_be_meant_is_refused(sources, options):
    with pytest.raises(UsageError):
        scaling(sources, **options)


def test_paths_are_named_by_what_tells_them_apart(tmp_path):
    document = '{"host_name": "h", "iter_time_ms": [1.0], "events": []}'
    for name in ("a/run", "b/run"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "h.prof.json").write_text(document)
    table = scaling([tmp_path / "a/run", tmp_path / "b/run"])
    assert _of(table, "run") == [("a/run",), ("b/run",)]


def test_an_efficiency_below_which_nothing_can_be_is_refused(run):
    with pytest.raises(UsageError, match="below=8 is not an efficiency"):
        scaling([run({"fc": [[40]]})], below=8)


def test_in_words_all_rows_show_and_below_them_what_stops(run):
    one = run({f"fc{number}": [[40]] for number in range(40)})
    two = run({f"fc{number}": [[40 + 20 * (number == 7)]] * 2 for number in range(40)})
    table = scaling([one, two], names=["one", "two"])
    lines = [line.text for line in scaling_lines(table, Layout(100))]
    assert len([line for line in lines if line.startswith("fc")]) == 80
    assert lines[-2:] == ["", "Stop scaling (weak-scaling efficiency below 80.0 %): fc7 at 2 ranks."]
    assert reply(table)["conclusions"] == [lines[-1]]  # the page's words are these
    loose = scaling([one, two], below=0.5)
    assert scaling_lines(loose, Layout(100))[-1].text == (
        "No label stops scaling (weak-scaling efficiency below 50.0 %)."
    )
    alone = [line.text for line in scaling_lines(scaling([one]), Layout(100))]
    assert not any("scaling (" in line for line in alone)


def test_one_run_has_nothing_to_be_compared_with(run):
    table = scaling([run({"iteration": [[100], [100]]})])
    assert _of(table, "efficiency_ratio", "over_ideal_ns") == [(None, None)]
    assert table.note.startswith("One run, on 2 ranks: there is nothing to compare it with.")


def test_runs_of_one_size_are_told_from_scaling_and_others_have_a_base(run):
    one, other, two = (run({"iteration": [[100]] * ranks}) for ranks in (1, 1, 2))
    alike = scaling([one, other])
    assert _of(alike, "efficiency_ratio") == [(None,), (None,)]
    assert alike.note.startswith("All runs are on 1 rank")
    assert "\n" not in alike.note  # no mode, no part of linear
    assert "stop" not in scaling_lines(alike, Layout(200))[-1].text
    assert "Efficiencies are against a, on 1 rank." in scaling([two, one], names=["b", "a"]).note


def test_runs_on_different_devices_are_said_to_be(run):
    runs = [
        run({"fc": [[100]] * ranks}, device=[{"device": 0, "name": name}]) for ranks, name in ((1, "V100"), (2, "A100"))
    ]
    assert "different devices (V100, A100)" in scaling(runs).note
    same = [run({"fc": [[100]] * ranks}, device=[{"device": 0, "name": "V100"}]) for ranks in (1, 2)]
    assert "different devices" not in scaling(same).note
