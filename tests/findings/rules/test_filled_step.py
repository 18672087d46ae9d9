"""What is said where half of a recording is missing."""


def call(name: str, at: int, correlation: int) -> dict[str, object]:
    of = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 2}
    return of | {"args": {"correlation": correlation}}


def test_launches_without_any_kernel_lead_to_another_recording(found):
    on_device = {"device": 0, "stream": 7, "correlation": 3, "bytes": 8}
    copy = {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 20, "dur": 9}
    (row,) = found(
        {
            "traceEvents": [
                call("cudaLaunchKernel", 1, 1),
                call("cudaLaunchKernel", 5, 2),
                call("cudaMemcpyAsync", 9, 3),
                copy | {"args": on_device},
            ]
        },
        "device-only",
    )
    assert row["title"].startswith("2 kernel launches and no kernel: ")
    assert "record again with ProfilerActivity.CUDA" in row["advice"]
