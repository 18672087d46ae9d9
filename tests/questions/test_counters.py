def test_metrics_of_kernels_and_samples_over_time(diff):
    diff(
        "counters",
        {
            "device_event": [{"id": 1, "category": "cuda_profiler_range", "name": "gemm"}],
            "kernel_metric": [
                {"id": 1, "kernel": "gemm", "metric": "dram__bytes.sum", "value": value,
                 "tool": "CUPTI"}
                for value in (10.0, 30.0)
            ],
            "counter": [
                {"track": "CUPTI PM Sampling", "series": "sm__throughput.avg.pct", "pid": "1",
                 "time_ns": at, "value": value}
                for at, value in ((0, 70.0), (5, None), (10, 50.0))
            ],
        },
        """
        name,pid,counter,samples,total,mean,min,max
        gemm,,dram__bytes.sum,2,40.0,20.0,10.0,30.0
        CUPTI PM Sampling,1,sm__throughput.avg.pct,2,120.0,60.0,50.0,70.0
        """,
    )  # fmt: skip
