import pytest

from stepscope.formats import vocabulary


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ("Operator", "cpu_op"), ("cpu_op", "cpu_op"), ("Kernel", "kernel"), ("Memcpy", "gpu_memcpy"),
        ("Runtime", "cuda_runtime"), ("GCU_MEMCPY", "gpu_memcpy"), ("cuda_sync", "cuda_sync"),
        ("xpu_sync", "xpu_sync"),
    ],
)  # fmt: skip
def test_categories_of_every_era_get_todays_spelling(raw, name):
    assert vocabulary.category(raw).name == name


@pytest.mark.parametrize(
    ("raw", "process", "name"),
    [
        (None, "CUDA functions", "kernel"), ("", "CPU functions", "cpu_op"), (None, "123", None),
        ("quantum_op", "", None),
    ],
)  # fmt: skip
def test_events_without_category_are_told_by_their_process_and_unknown_ones_not_guessed(raw, process, name):
    known = vocabulary.category(raw, process)
    assert (known and known.name) == name


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("cudaLaunchKernel", "launch"), ("cudaLaunchKernelExC", "launch"), ("cuLaunchKernelEx", "launch"),
        ("hipLaunchKernel", "launch"), ("hipModuleLaunchKernel", "launch"), ("hipExtModuleLaunchKernel", "launch"),
        ("hipDrvLaunchKernelEx", "launch"), ("urEnqueueKernelLaunchWithArgsExp", "launch"),
        ("cudaGraphLaunch", "graph_launch"), ("hipGraphLaunch", "graph_launch"), ("cudaMemcpyAsync", "copy"),
        ("cudaMemsetAsync", "fill"), ("cudaStreamSynchronize", "synchronize"),
        ("cudaStreamWaitEvent", "synchronize"), ("cudaMalloc", "allocate"), ("cudaFuncGetAttributes", None),
        ("cudaOccupancyMaxActiveBlocksPerMultiprocessor", None),
    ],
)  # fmt: skip
def test_runtime_calls_have_their_role(name, role):
    assert vocabulary.host_role("runtime", name) == role


@pytest.mark.parametrize(
    ("kind", "name", "role"),
    [
        ("annotation", "ProfilerStep#12", "step"),
        ("annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "dataloader"),
        ("annotation", "Optimizer.step#SGD.step", "optimizer"),
        ("annotation", "Optimizer.zero_grad#SGD.zero_grad", "zero_grad"),
        ("operator", "nccl:_all_gather_base", "communication"), ("operator", "c10d::allreduce_", "communication"),
        ("operator", "record_param_comms", "communication"),
        ("operator", "autograd::engine::evaluate_function: AddmmBackward0", "backward"),
        ("operator", "AddmmBackward0", "backward"), ("operator", "aten::convolution_backward", None),
        ("operator", "aten::mm", None), ("python", "nn.Module: Linear_3", "module"),
        ("python", "Python GC", "garbage_collection"), ("annotation", "Python GC", "garbage_collection"),
        ("operator", "_compile.compile_inner (dynamo_timed)", "compile"),
        ("operator", "entire_frame_compile", "compile"), ("operator", "Torch-Compiled Region: 0/0", "compiled"),
        ("overhead", "ProfilerStep#1", None),
    ],
)  # fmt: skip
def test_host_events_have_their_role(kind, name, role):
    assert vocabulary.host_role(kind, name) == role


def test_ranges_that_old_torch_called_operators_are_annotations():
    assert vocabulary.host_kind("operator", "ProfilerStep#5") == "annotation"
    assert vocabulary.host_kind("operator", "aten::add") == "operator"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("volta_sgemm_64x64_nt", "computation"), ("event_wait", "sync"), ("EVENT_WAIT_14", "sync"),
        ("NOTIFY_WAIT_SQE", "sync"), ("MEM_WRITE_VALUE", "sync"), ("event_record", "sync"),
        ("InternalMarker", "sync"), ("Barrier", "sync"), ("zeCommandListAppendBarrier", "sync"),
        ("void barrier_kernel<4>(int*)", "computation"), ("event_wait_and_add", "computation"),
    ],
)  # fmt: skip
def test_waits_and_markers_are_no_computation(name, kind):
    assert vocabulary.device_kind("computation", name) == kind


@pytest.mark.parametrize(
    ("name", "direction", "memory"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "DtoH", "pageable"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", "device"),
        ("CopyHostToDevice", "HtoD", "unknown"),
        ("hipMemcpyWithStream", "unknown", "unknown"),
    ],
)
def test_copies_have_direction_and_memory(name, direction, memory):
    assert vocabulary.copy_kind(name) == direction
    assert vocabulary.memory_kind(name) == memory


@pytest.mark.parametrize(
    ("name", "source", "destination"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "pinned", "device"),
        ("Memcpy DtoD (Device Static -> Device)", "device static", "device"),
        ("Memset (Device)", None, "device"),
        ("CopyHostToDevice", None, None),
    ],
)
def test_the_memory_at_both_ends_is_named(name, source, destination):
    assert vocabulary.source_memory(name) == source
    assert vocabulary.destination_memory(name) == destination


def test_step_number_is_read_from_the_range():
    assert vocabulary.step_number("ProfilerStep#12") == 12
    assert vocabulary.step_number("ProfilerStep*") is None


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("train.py(12): main", "program"), ("models/bert.py(31): forward", "program"),
        ("transformers/models/bert/modeling_bert.py(250): transpose_for_scores", "program"),
        ("/home/me/torch/experiments/train.py(3): <module>", "program"),
        ("C:\\work\\train.py(3): <lambda>", "program"), ("torch/nn/modules/linear.py(124): forward", None),
        ("/src/pytorch/torch/nn/modules/linear.py(124): forward", None),
        ("/venv/lib/python3.11/site-packages/einops/einops.py(4): rearrange", None),
        ("/usr/lib/python3.12/threading.py(1032): _bootstrap", None), ("threading.py(1032): _bootstrap", None),
        ("asyncio/events.py(80): _run", None), ("stepscope/record/targets/around.py(39): __call__", None),
        ("/opt/venv/bin/stepscope(8): <module>", None),
        ("<frozen importlib._bootstrap>(241): _call_with_frames_removed", None), ("<string>(2): __init__", None),
        ("<built-in method relu of Tensor object at 0x7ff33997cd70>", None),
        ("torch/optim/optimizer.py(1023): zero_grad", "zero_grad"), ("nn.Module: Linear_3", "module"),
    ],
)  # fmt: skip
def test_frames_of_the_programs_own_code_are_told_from_the_rest(name, role):
    assert vocabulary.host_role("python", name) == role
