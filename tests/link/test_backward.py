"""Forward, backward and optimizer."""

ENGINE = "autograd::engine::evaluate_function: "


def test_backward_belongs_to_the_last_forward_operator_of_its_number(recording):
    # `linear` and `t` carry the number too, but only `addmm` records a node of the graph.
    recording.operator("aten::linear", 0, 50, sequence_number=7, forward_thread=0)
    recording.operator("aten::t", 5, 10, sequence_number=7, forward_thread=0)
    addmm = recording.operator("aten::addmm", 20, 40, sequence_number=7, forward_thread=0)
    recording.operator("aten::sum", 60, 70, sequence_number=8, forward_thread=0)
    backward = recording.operator(ENGINE + "AddmmBackward0", 100, 190, thread=1, sequence_number=7, forward_thread=1)
    node = recording.operator("AddmmBackward0", 110, 180, thread=1, sequence_number=7, forward_thread=1)
    mm = recording.operator("aten::mm", 120, 150, thread=1)
    linked = recording.link()
    assert [linked.host(row)["forward_id"] for row in (backward, node, mm)] == [addmm] * 3
    assert linked.host(addmm)["forward_id"] is None


def test_forward_thread_decides_between_equal_numbers(recording):
    # Each thread counts for itself; the numbers of autograd's threads (1, 2) are named nowhere.
    forward = {}
    for thread, numbers in ((0, (3, 4)), (5, (4, 5))):
        for number in numbers:
            forward[thread, number] = recording.operator(
                "aten::mul", 10 * number, 10 * number + 5, thread, sequence_number=number
            )
    backward = {}
    for name, thread, numbers in ((1, 0, (3, 4)), (2, 5, (4, 5))):
        for number in numbers:
            backward[thread, number] = recording.operator(
                "MulBackward0", 100 + 20 * number + name, 108 + 20 * number + name, 9,
                sequence_number=number, forward_thread=name,
            )  # fmt: skip
    linked = recording.link()
    assert {key: linked.host(row)["forward_id"] for key, row in backward.items()} == forward


def test_forward_that_starts_after_the_backward_is_not_its_own(recording):
    recording.operator("aten::mul", 500, 510, sequence_number=7)
    backward = recording.operator("MulBackward0", 100, 110, 1, sequence_number=7, forward_thread=1)
    assert recording.link().host(backward)["forward_id"] is None


def test_backward_on_the_forwards_own_thread_is_linked(recording):
    forward = recording.operator("aten::mul", 0, 10, sequence_number=7)
    backward = recording.operator("MulBackward0", 100, 110, sequence_number=7, forward_thread=1)
    assert recording.link().host(backward)["forward_id"] == forward


def test_arrows_link_where_numbers_are_missing(recording):
    forward = recording.operator("aten::mul", 0, 10)
    engine = recording.operator(ENGINE + "MulBackward0", 95, 120, thread=1)
    node = recording.operator("MulBackward0", 100, 110, thread=1)
    recording.flow("fwdbwd", "s", 1, 0, "100", "200")
    recording.flow("fwdbwd", "f", 1, 100, "100", "201")
    linked = recording.link()
    assert [linked.host(row)["forward_id"] for row in (engine, node)] == [forward] * 2


def test_direction_goes_down_to_calls_and_on_to_device_work(recording):
    forward = recording.operator("aten::addmm", 0, 40, sequence_number=7)
    recording.launch(10, 20, 1)
    recording.operator("AddmmBackward0", 100, 180, 1, sequence_number=7, forward_thread=1)
    recording.operator("aten::mm", 110, 150, 1)
    recording.launch(120, 130, 2, thread=1)
    optimizer = recording.annotation("Optimizer.step#SGD.step", 200, 300)
    recording.launch(210, 220, 3)
    recording.annotation("my range", 400, 500)
    recording.launch(410, 420, 4)
    for correlation in (1, 2, 3, 4):
        recording.kernel(1000 + correlation * 10, 1005 + correlation * 10, correlation)
    linked = recording.link()
    assert linked.column("device_event", "direction") == ["forward", "backward", "optimizer", None]
    assert linked.host(forward)["direction"] == "forward"
    assert linked.host(optimizer)["direction"] == "optimizer"
    assert linked.attributed()["direction"] == 15


def test_operator_between_two_forward_ones_is_forward_too(recording):
    # Batch norm counts its batches outside of the graph.
    recording.annotation("enumerate(DataLoader)#_Single.__next__", 0, 50)
    loading = recording.operator("aten::stack", 10, 20)
    copying = recording.operator("aten::to", 60, 70)
    recording.operator("aten::conv2d", 100, 120, sequence_number=1)
    counting = recording.operator("aten::add_", 130, 140)
    recording.operator("aten::relu", 150, 160, sequence_number=2)
    after = recording.operator("aten::ones_like", 170, 180)
    for start, number in ((200, 2), (210, 1)):
        recording.operator("ReluBackward0", start, start + 5, 1, sequence_number=number, forward_thread=1)
    linked = recording.link()
    assert linked.host(counting)["direction"] == "forward"
    assert [linked.host(row)["direction"] for row in (loading, copying, after)] == [None] * 3


def test_forward_computed_anew_within_backward_is_backward(recording):
    recording.operator("aten::mul", 0, 10, sequence_number=7)
    recording.operator("CheckpointFunctionBackward", 100, 200, 1, sequence_number=7, forward_thread=1)
    module = recording.python("nn.Module: Block_0", 110, 150, 1)
    again = recording.operator("aten::mul", 120, 130, 1, sequence_number=9)
    linked = recording.link()
    assert linked.host(module)["direction"] == "backward"
    assert linked.host(again)["direction"] == "backward"


def test_operator_that_encloses_a_forward_operator_is_forward(recording):
    outer = recording.operator("aten::linear", 0, 50)
    recording.operator("aten::addmm", 10, 40, sequence_number=7)
    beside = recording.operator("aten::t", 42, 44)
    recording.operator("AddmmBackward0", 100, 180, 1, sequence_number=7, forward_thread=1)
    linked = recording.link()
    assert [linked.host(row)["direction"] for row in (outer, beside)] == ["forward"] * 2


def test_what_autograds_own_thread_does_between_and_after_is_backward(recording):
    recording.operator("aten::mul", 0, 10, sequence_number=7)
    for start in (100, 300):
        recording.operator("MulBackward0", start, start + 10, 1, sequence_number=7, forward_thread=1)
    between = recording.operator("aten::copy_", 200, 210, 1)
    after = recording.operator("torch.distributed.ddp.reducer::copy_bucket_to_grad", 400, 410, 1)
    before = recording.operator("aten::empty", 50, 60, 1)
    elsewhere = recording.operator("aten::copy_", 400, 410)
    linked = recording.link()
    assert [linked.host(row)["direction"] for row in (between, after)] == ["backward"] * 2
    assert [linked.host(row)["direction"] for row in (before, elsewhere)] == [None] * 2
