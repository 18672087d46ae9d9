"""Metrics of nvprof, under the names that ncu has for the same hardware counts, from Volta on.

From NVIDIA's "Nsight Compute CLI", Nvprof Transition Guide, Metric Comparison (2022.3). nvprof's older names, for
devices with separate L1 and texture caches, map to the unified cache. A rate that ncu does not compute is recorded as
its parts.
"""

from __future__ import annotations

_HITS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}_lookup_hit.sum"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"
_GLOBAL_HIT_RATE = (
    *(_HITS.format("global", operation) for operation in ("ld", "st", "red", "atom")),
    *(_SECTORS.format("global", operation) for operation in ("ld", "st", "red", "atom")),
)
"""The sum of the first four, divided by that of the others."""
_LOCAL_HIT_RATE = (
    *(_HITS.format("local", operation) for operation in ("ld", "st")),
    *(_SECTORS.format("local", operation) for operation in ("ld", "st")),
)
"""Likewise; NVIDIA's table has no equivalent."""
_L2_READS = "lts__t_sectors_srcunit_tex_op_read.sum"
_L2_WRITES = "lts__t_sectors_srcunit_tex_op_write.sum"
_HOST_READS = "lts__t_sectors_aperture_sysmem_op_read.sum"
_HOST_WRITES = "lts__t_sectors_aperture_sysmem_op_write.sum"
_SHARED_LOADS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
_SHARED_STORES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"

NCU_NAMES: dict[str, tuple[str, ...]] = {
    "achieved_occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "dram_read_throughput": ("dram__bytes_read.sum.per_second",),
    "dram_read_transactions": ("dram__sectors_read.sum",),
    "dram_utilization": ("dram__throughput.avg.pct_of_peak_sustained_elapsed",),
    "dram_write_throughput": ("dram__bytes_write.sum.per_second",),
    "dram_write_transactions": ("dram__sectors_write.sum",),
    "gld_efficiency": ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",),
    "gld_throughput": ("l1tex__t_bytes_pipe_lsu_mem_global_op_ld.sum.per_second",),
    "gld_transactions": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "global_hit_rate": _GLOBAL_HIT_RATE,
    "gst_efficiency": ("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",),
    "gst_throughput": ("l1tex__t_bytes_pipe_lsu_mem_global_op_st.sum.per_second",),
    "gst_transactions": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "ipc": ("smsp__inst_executed.avg.per_cycle_active",),
    "l1_cache_global_hit_rate": _GLOBAL_HIT_RATE,
    "l1_cache_local_hit_rate": _LOCAL_HIT_RATE,
    **dict.fromkeys(
        ("l2_l1_read_throughput", "l2_tex_read_throughput", "l2_texture_read_throughput"), (f"{_L2_READS}.per_second",)
    ),
    **dict.fromkeys(("l2_l1_read_transactions", "l2_tex_read_transactions"), (_L2_READS,)),
    **dict.fromkeys(("l2_l1_write_throughput", "l2_tex_write_throughput"), (f"{_L2_WRITES}.per_second",)),
    **dict.fromkeys(("l2_l1_write_transactions", "l2_tex_write_transactions"), (_L2_WRITES,)),
    "shared_load_throughput": (f"{_SHARED_LOADS}.per_second",),
    "shared_load_transactions": (_SHARED_LOADS,),
    "shared_store_throughput": (f"{_SHARED_STORES}.per_second",),
    "shared_store_transactions": (_SHARED_STORES,),
    "sm_efficiency": ("smsp__cycles_active.avg.pct_of_peak_sustained_elapsed",),
    "sysmem_read_throughput": (f"{_HOST_READS}.per_second",),
    "sysmem_read_transactions": (_HOST_READS,),
    "sysmem_write_throughput": (f"{_HOST_WRITES}.per_second",),
    "sysmem_write_transactions": (_HOST_WRITES,),
    "tensor_precision_fu_utilization": ("sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",),
}
"""By nvprof's name. `ipc` is per quarter of a multiprocessor; nvprof's was per multiprocessor."""


def ncu_names(metrics: tuple[str, ...]) -> tuple[str, ...]:
    """The distinct metrics under ncu's names; unknown names stay unchanged."""
    return tuple(dict.fromkeys(name for metric in metrics for name in NCU_NAMES.get(metric, (metric,))))
