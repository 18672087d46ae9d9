"""The counters of kernels under one name each, with unit and meaning, whatever a tool calls them.

Names of Nsight Compute are those of its metrics, as on its `raw` page; their names on its `details` page are in
`LABELS`, from the sections of Nsight Compute 2022.3 and, for older and newer spellings, from reports. How nvprof's
metrics map to Nsight Compute's is from NVIDIA's "Nsight Compute CLI", Nvprof Transition Guide, Metric Comparison.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Kind(NamedTuple):
    """What a counter measures.

    Args:
        unit: of its values.
        meaning: one line for people.
        ncu: Nsight Compute's names; the first one that was measured counts.
        nvprof: nvprof's names, likewise.
        parts: whether the values under all measured names add up.
        level: multiplies a value without unit: nvprof has ratios and levels of 0 to 10 for some.
    """

    unit: str
    meaning: str
    ncu: tuple[str, ...] = ()
    nvprof: tuple[str, ...] = ()
    parts: bool = False
    level: float = 1.0


_OF_PEAK = "avg.pct_of_peak_sustained_elapsed"
_OF_ACTIVE = "avg.pct_of_peak_sustained_active"
_HITS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}_lookup_hit.sum"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum"
_L1 = "l1tex__t_bytes_pipe_lsu_mem_{}_op_{}.sum"
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_L2 = "lts__t_sectors_srcunit_tex_op_{}.sum"
_HOST = "lts__t_sectors_aperture_sysmem_op_{}.sum"


def _moved(name: str, what: str, ncu: str, *nvprof: str, unit: str = "transaction") -> dict[str, Kind]:
    """The rate and the number of transactions of one path of memory."""
    older = tuple(nvprof) or (name,)
    rate = f"{ncu}.per_second"
    return {
        f"{name}_throughput": Kind(
            "byte/s", f"bytes a second: {what}", (rate,), tuple(f"{name}_throughput" for name in older)
        ),
        f"{name}_transactions": Kind(
            unit, f"transactions of 32 bytes: {what}", (ncu,), tuple(f"{name}_transactions" for name in older)
        ),
    }  # fmt: skip


KINDS: dict[str, Kind] = {
    "duration": Kind("ns", "duration while it was measured, alone and with the tool's clocks", ("gpu__time_duration.sum", "gpu__time_duration.avg")),
    "compute_throughput": Kind("%", "speed of light, compute: of the peak of what computes in a multiprocessor", (f"sm__throughput.{_OF_PEAK}",)),
    "memory_throughput": Kind("%", "speed of light, memory: of the peak of the busiest level of memory", (f"gpu__compute_memory_throughput.{_OF_PEAK}",)),
    "l1_throughput": Kind("%", "of the peak of the L1 and texture cache", (f"l1tex__throughput.{_OF_ACTIVE}", f"l1tex__throughput.{_OF_PEAK}")),
    "l2_throughput": Kind("%", "of the peak of the L2 cache", (f"lts__throughput.{_OF_PEAK}",), ("l2_utilization",), level=10),
    "dram_throughput": Kind("%", "of the peak of device memory; nvprof has it in tenths", (f"gpu__dram_throughput.{_OF_PEAK}", f"dram__throughput.{_OF_PEAK}"), ("dram_utilization",), level=10),
    "dram_read_throughput": Kind("byte/s", "bytes a second: read from device memory", ("dram__bytes_read.sum.per_second",), ("dram_read_throughput",)),
    "dram_read_transactions": Kind("transaction", "transactions of 32 bytes: read from device memory", ("dram__sectors_read.sum",), ("dram_read_transactions",)),
    "dram_write_throughput": Kind("byte/s", "bytes a second: written to device memory", ("dram__bytes_write.sum.per_second",), ("dram_write_throughput",)),
    "dram_write_transactions": Kind("transaction", "transactions of 32 bytes: written to device memory", ("dram__sectors_write.sum",), ("dram_write_transactions",)),
    "dram_read_bytes": Kind("byte", "bytes read from device memory", ("dram__bytes_read.sum",), ("dram_read_bytes",)),
    "dram_write_bytes": Kind("byte", "bytes written to device memory", ("dram__bytes_write.sum",), ("dram_write_bytes",)),
    "dram_bytes": Kind("byte", "bytes read from and written to device memory", ("dram__bytes.sum",)),
    "dram_bytes_per_s": Kind("byte/s", "bytes a second, read from and written to device memory", ("dram__bytes.sum.per_second",)),
    **_moved("sysmem_read", "read from the host's memory", _HOST.format("read")),
    **_moved("sysmem_write", "written to the host's memory", _HOST.format("write")),
    "l2_l1_read_throughput": Kind("byte/s", "bytes a second: read from L2 by an L1 that is no texture cache (Kepler; later l2_tex_read)", (), ("l2_l1_read_throughput",)),
    "l2_l1_read_transactions": Kind("transaction", "transactions of 32 bytes: read from L2 by such an L1", (), ("l2_l1_read_transactions",)),
    "l2_l1_write_throughput": Kind("byte/s", "bytes a second: written to L2 by such an L1", (), ("l2_l1_write_throughput",)),
    "l2_l1_write_transactions": Kind("transaction", "transactions of 32 bytes: written to L2 by such an L1", (), ("l2_l1_write_transactions",)),
    **_moved("l2_tex_read", "read from L2 by the L1 and texture cache", _L2.format("read"), "l2_tex_read", "l2_texture_read"),
    **_moved("l2_tex_write", "written to L2 by the L1 and texture cache", _L2.format("write")),
    **_moved("shared_load", "read from shared memory", _SHARED.format("ld")),
    **_moved("shared_store", "written to shared memory", _SHARED.format("st")),
    "gld_efficiency": Kind("%", "bytes that global loads asked for, of those in the sectors that they touched", ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",), ("gld_efficiency",)),
    "gld_throughput": Kind("byte/s", "bytes a second of global loads", (f"{_L1.format('global', 'ld')}.per_second",), ("gld_throughput",)),
    "gld_transactions": Kind("transaction", "sectors of 32 bytes that global loads touched", (_SECTORS.format("global", "ld"),), ("gld_transactions",)),
    "gld_requests": Kind("request", "global loads of warps", ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",), ("global_load_requests",)),
    "gst_efficiency": Kind("%", "bytes that global stores wrote, of those in the sectors that they touched", ("smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",), ("gst_efficiency",)),
    "gst_throughput": Kind("byte/s", "bytes a second of global stores", (f"{_L1.format('global', 'st')}.per_second",), ("gst_throughput",)),
    "gst_transactions": Kind("transaction", "sectors of 32 bytes that global stores touched", (_SECTORS.format("global", "st"),), ("gst_transactions",)),
    "gst_requests": Kind("request", "global stores of warps", ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",), ("global_store_requests",)),
    "global_hit_rate": Kind("%", "global accesses that L1 served", (), ("global_hit_rate", "l1_cache_global_hit_rate")),
    "global_hits": Kind("transaction", "sectors of global accesses that L1 had", tuple(_HITS.format("global", kind) for kind in ("ld", "st", "red", "atom")), parts=True),
    "global_sectors": Kind("transaction", "sectors of reductions and atomics on global memory", tuple(_SECTORS.format("global", kind) for kind in ("red", "atom")), parts=True),
    "local_hit_rate": Kind("%", "local accesses that L1 served", (), ("local_hit_rate", "l1_cache_local_hit_rate")),
    "local_hits": Kind("transaction", "sectors of local accesses that L1 had", tuple(_HITS.format("local", kind) for kind in ("ld", "st")), parts=True),
    "local_sectors": Kind("transaction", "sectors of local accesses, which are spilled registers and arrays of a thread's own", tuple(_SECTORS.format("local", kind) for kind in ("ld", "st")), ("local_load_transactions", "local_store_transactions"), parts=True),
    "local_instructions": Kind("inst", "loads and stores of local memory that warps executed", ("smsp__inst_executed_op_local_ld.sum", "smsp__inst_executed_op_local_st.sum", "smsp__sass_inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_st.sum"), ("inst_executed_local_loads", "inst_executed_local_stores"), parts=True),
    "l1_hit_rate": Kind("%", "accesses that L1 served", ("l1tex__t_sector_hit_rate.pct",), ("tex_cache_hit_rate",)),
    "l2_hit_rate": Kind("%", "accesses that L2 served", ("lts__t_sector_hit_rate.pct",), ("l2_tex_hit_rate",)),
    "achieved_occupancy": Kind("%", "resident warps of those that a multiprocessor can hold, in cycles in which it had any", (f"sm__warps_active.{_OF_ACTIVE}",), ("achieved_occupancy",), level=100),
    "theoretical_occupancy": Kind("%", "resident warps that the launch allows, of those that a multiprocessor can hold", ("sm__maximum_warps_per_active_cycle_pct",)),
    "occupancy_limit_blocks": Kind("block", "blocks that fit a multiprocessor by their largest number", ("launch__occupancy_limit_blocks",)),
    "occupancy_limit_registers": Kind("block", "blocks that fit a multiprocessor by their registers", ("launch__occupancy_limit_registers",)),
    "occupancy_limit_shared_memory": Kind("block", "blocks that fit a multiprocessor by their shared memory", ("launch__occupancy_limit_shared_mem",)),
    "occupancy_limit_warps": Kind("block", "blocks that fit a multiprocessor by their warps", ("launch__occupancy_limit_warps",)),
    "occupancy_limit_barriers": Kind("block", "blocks that fit a multiprocessor by their barriers", ("launch__occupancy_limit_barriers",)),
    "registers_per_thread": Kind("register/thread", "registers of a thread", ("launch__registers_per_thread",)),
    "waves": Kind("", "how often the grid fills all multiprocessors", ("launch__waves_per_multiprocessor",)),
    "ipc": Kind("inst/cycle", "instructions a cycle of an active multiprocessor", ("sm__inst_executed.avg.per_cycle_active",), ("ipc",)),
    "scheduler_ipc": Kind("inst/cycle", "instructions a cycle of one of a multiprocessor's schedulers", ("smsp__inst_executed.avg.per_cycle_active",)),
    "sm_active": Kind("%", "time in which a multiprocessor had work", (f"smsp__cycles_active.{_OF_PEAK}", f"sm__cycles_active.{_OF_PEAK}"), ("sm_efficiency",)),
    "tensor_active": Kind("%", "cycles in which the tensor pipe was busy; nvprof has it in tenths", tuple(f"sm__{pipe}.{of}" for pipe in ("pipe_tensor_cycles_active", "inst_executed_pipe_tensor", "pipe_tensor_op_hmma_cycles_active", "inst_executed_pipe_tensor_op_hmma", "inst_executed_pipe_tensor_op_gmma") for of in (_OF_ACTIVE, _OF_PEAK)), ("tensor_precision_fu_utilization",), level=10),
    "tensor_instructions": Kind("inst", "instructions of the tensor pipe", ("sm__inst_executed_pipe_tensor.sum", "smsp__inst_executed_pipe_tensor.sum", "smsp__inst_executed_pipe_tensor.sum.per_cycle_elapsed")),
    "tensor_operations": Kind("flop", "floating-point operations of tensor cores, by the types of what goes in and comes out"),
    "tensor_operations_per_cycle": Kind("flop/cycle", "likewise, a cycle of all multiprocessors"),
    "shared_load_conflicts": Kind("wavefront", "further passes over shared memory that loads needed, since threads wanted different words of one bank", ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",), ("shared_ld_bank_conflict",)),
    "shared_store_conflicts": Kind("wavefront", "likewise for stores", ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",), ("shared_st_bank_conflict",)),
    "shared_wavefronts": Kind("wavefront", "passes over shared memory, as the source view counts them", ("memory_l1_wavefronts_shared",)),
    "shared_wavefronts_ideal": Kind("wavefront", "passes that were needed without conflicts of banks", ("memory_l1_wavefronts_shared_ideal",)),
    "global_l2_sectors": Kind("transaction", "sectors that global accesses need of L2, as the source view counts them", ("memory_l2_theoretical_sectors_global",)),
    "global_l2_sectors_ideal": Kind("transaction", "sectors that they would need were they coalesced", ("memory_l2_theoretical_sectors_global_ideal",)),
    "l1_bytes": Kind("byte", "bytes that the L1 and texture cache served", ("l1tex__t_bytes.sum",)),
    "l1_bytes_per_s": Kind("byte/s", "bytes a second that the L1 and texture cache served", ("l1tex__t_bytes.sum.per_second",)),
    "l1_sectors": Kind("transaction", "sectors of 32 bytes that the L1 and texture cache served", ("l1tex__t_sectors.sum",)),
    "l2_bytes": Kind("byte", "bytes that L2 served", ("lts__t_bytes.sum",)),
    "l2_bytes_per_s": Kind("byte/s", "bytes a second that L2 served", ("lts__t_bytes.sum.per_second",)),
    "l2_sectors": Kind("transaction", "sectors of 32 bytes that L2 served", ("lts__t_sectors.sum",), ("l2_read_transactions", "l2_write_transactions"), parts=True),
    "scheduler_hz": Kind("hz", "clock of the multiprocessors' schedulers", ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second")),
    "dram_hz": Kind("hz", "clock of device memory", ("dram__cycles_elapsed.avg.per_second",)),
    "dram_peak": Kind("byte/cycle", "bytes a cycle of device memory at most", ("dram__bytes.sum.peak_sustained",)),
}  # fmt: skip
"""By name. Values computed from several of them are in `analysis/kernels/counters.py`."""

_LETTERS = {"h": 16, "f": 32, "d": 64}
for _letter, _bits in _LETTERS.items():
    for _operation in ("add", "mul", "fma"):
        _op = f"sass_thread_inst_executed_op_{_letter}{_operation}_pred_on.sum"
        _each = "multiply-adds" if _operation == "fma" else f"{_operation} operations"
        KINDS[f"fp{_bits}_{_operation}"] = Kind(
            "inst", f"{_each} of float{_bits} by threads", (f"smsp__{_op}", f"sm__{_op}"),
            (f"flop_count_{_letter.replace('f', 's')}p_{_operation}",),
        )  # fmt: skip
        KINDS[f"fp{_bits}_{_operation}_per_cycle"] = Kind(
            "inst/cycle", f"{_each} of float{_bits} a cycle",
            (f"smsp__{_op}.per_cycle_elapsed", f"sm__{_op}.per_cycle_elapsed"),
        )  # fmt: skip
    KINDS[f"fp{_bits}_peak"] = Kind(
        "inst/cycle", f"multiply-adds of float{_bits} a cycle at most, of all multiprocessors",
        (f"sm__sass_thread_inst_executed_op_{_letter}fma_pred_on.sum.peak_sustained",),
    )  # fmt: skip
    KINDS[f"fp{_bits}_operations"] = Kind(
        "flop",
        f"operations of float{_bits}, a multiply-add counted as 2",
        nvprof=(f"flop_count_{_letter.replace('f', 's')}p",),
    )
STALLS = {
    "long_scoreboard": "data from L1, L2, device or local memory", "short_scoreboard": "data from shared memory",
    "barrier": "other warps of the block at a barrier", "branch_resolving": "a branch",
    "dispatch_stall": "the dispatcher", "drain": "stores at the end of the kernel", "gmma": "the tensor pipe",
    "imc_miss": "constants", "lg_throttle": "a place in the queue of L1 for global and local memory",
    "math_pipe_throttle": "a pipe that computes", "membar": "a memory barrier",
    "mio_throttle": "a place in the queue of shared memory and special functions", "misc": "something else",
    "no_instruction": "its next instruction", "sleeping": "the end of its sleep",
    "tex_throttle": "a place in the queue of textures", "wait": "a fixed number of cycles",
    "not_selected": "its turn",
}  # fmt: skip
"""What a warp waits for before it issues an instruction, by Nsight Compute's name for the stall."""
for _stall, _cause in STALLS.items():
    KINDS[f"stall_{_stall}"] = Kind(
        "cycle",
        f"cycles that a warp waits for {_cause}, for each instruction",
        (f"smsp__average_warps_issue_stalled_{_stall}_per_issue_active.ratio",),
    )

_KIND_OF: dict[str, str] = {name: kind for kind, names in KINDS.items() for name in (*names.ncu, *names.nvprof)}


def kind_of(metric: str) -> str | None:
    """What a metric of Nsight Compute, of CUPTI or of nvprof measures; None if it is of no kind.

    Example:
        >>> kind_of("dram__bytes.sum"), kind_of("gld_efficiency"), kind_of("sm__ctas_launched.sum")
        ('dram_bytes', 'gld_efficiency', None)
    """
    path = _TENSOR_PATH.match(metric)
    if path is None:
        return _KIND_OF.get(metric)
    return "tensor_operations_per_cycle" if path["rate"] else "tensor_operations"


_TENSOR_PATH = re.compile(
    r"sm__ops_path_tensor(?:_op_(?P<op>[a-z]+))?_src_(?P<given>(?:fp|bf|tf)\d+(?:_fp\d+)*)(?:_dst_(?P<made>fp\d+))?"
    r"(?:_sparsity_(?P<sparsity>on|off))?\.sum(?P<rate>\.per_cycle_elapsed)?\Z"
)
_NARROWING = ("op", "made", "sparsity")


def tensor_operations(metrics: Mapping[str, float]) -> float | None:
    """Operations of tensor cores, from the counters of their paths; None if these do not determine it.

    A metric without an instruction, an output type or a sparsity includes the metrics with one: of
    `sm__ops_path_tensor_src_fp16_dst_fp32.sum` and `..._sparsity_off.sum` the first counts. If neither of two metrics
    includes the other, they may count the same operation, and the result is None. So it is for sparse products: whether
    operations with skipped zeros are counted is not documented.

    Args:
        metrics: values by metric, of one of the two kinds `tensor_operations`.
    """
    paths = [path for name in metrics if metrics[name] and (path := _TENSOR_PATH.match(name))]
    paths.sort(key=lambda path: sum(path[key] is not None for key in _NARROWING))
    apart: list[re.Match[str]] = []
    for path in paths:
        shared = [other for other in apart if _may_share(other, path)]
        if path["sparsity"] == "on" or not all(_contains(other, path) for other in shared):
            return None
        if not shared:
            apart.append(path)
    return sum(metrics[path[0]] for path in apart)


def _may_share(path: re.Match[str], other: re.Match[str]) -> bool:
    types = set(path["given"].split("_")) & set(other["given"].split("_"))
    return bool(types) and all(None in (path[key], other[key]) or path[key] == other[key] for key in _NARROWING)


def _contains(path: re.Match[str], other: re.Match[str]) -> bool:
    narrowed = all(path[key] in (None, other[key]) for key in _NARROWING)
    return narrowed and path["given"] == other["given"]


_SOL = f"sm__throughput.{_OF_PEAK}"
_SOL_MEMORY = f"gpu__compute_memory_throughput.{_OF_PEAK}"
LABELS: dict[str, str] = {
    "Compute (SM) Throughput": _SOL, "Compute (SM) [%]": _SOL, "SOL SM": _SOL,
    "Memory [%]": _SOL_MEMORY, "SOL Memory": _SOL_MEMORY,
    "L1/TEX Cache Throughput": f"l1tex__throughput.{_OF_ACTIVE}", "SOL L1/TEX Cache": f"l1tex__throughput.{_OF_ACTIVE}",
    "SOL TEX": f"l1tex__throughput.{_OF_ACTIVE}",
    "L2 Cache Throughput": f"lts__throughput.{_OF_PEAK}", "SOL L2 Cache": f"lts__throughput.{_OF_PEAK}",
    "SOL L2": f"lts__throughput.{_OF_PEAK}",
    "DRAM Throughput": f"gpu__dram_throughput.{_OF_PEAK}", "SOL DRAM": f"dram__throughput.{_OF_PEAK}",
    "Duration": "gpu__time_duration.sum", "Elapsed Cycles": "gpc__cycles_elapsed.max",
    "SM Active Cycles": "sm__cycles_active.avg", "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "DRAM Frequency": "dram__cycles_elapsed.avg.per_second", "Memory Frequency": "dram__cycles_elapsed.avg.per_second",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "Executed Ipc Elapsed": "sm__inst_executed.avg.per_cycle_elapsed",
    "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
    "Issued Ipc Active": "sm__inst_issued.avg.per_cycle_active",
    "Issue Slots Busy": f"sm__inst_issued.{_OF_ACTIVE}", "SM Busy": f"sm__instruction_throughput.{_OF_ACTIVE}",
    "Mem Busy": f"gpu__compute_memory_access_throughput.{_OF_PEAK}",
    "Max Bandwidth": f"gpu__compute_memory_request_throughput.{_OF_PEAK}",
    "Mem Pipes Busy": f"sm__memory_throughput.{_OF_PEAK}",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct", "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "L2 Compression Success Rate": "lts__average_gcomp_input_sector_success_rate.pct",
    "L2 Compression Ratio": "lts__average_gcomp_output_sector_compression_achieved_rate.ratio",
    "Executed Instructions": "smsp__inst_executed.sum", "Avg. Executed Instructions Per Scheduler": "smsp__inst_executed.avg",
    "Issued Instructions": "smsp__inst_issued.sum", "Avg. Issued Instructions Per Scheduler": "smsp__inst_issued.avg",
    "Grid Size": "launch__grid_size", "Block Size": "launch__block_size", "Threads": "launch__thread_count",
    "Registers Per Thread": "launch__registers_per_thread", "Cluster Size": "launch__cluster_size",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Driver Shared Memory Per Block": "launch__shared_mem_per_block_driver",
    "Shared Memory Configuration Size": "launch__shared_mem_config_size",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Theoretical Active Warps per SM": "sm__maximum_warps_avg_per_active_cycle",
    "Achieved Occupancy": f"sm__warps_active.{_OF_ACTIVE}",
    "Achieved Active Warps Per SM": "sm__warps_active.avg.per_cycle_active",
    "Block Limit SM": "launch__occupancy_limit_blocks", "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem", "Block Limit Warps": "launch__occupancy_limit_warps",
    "Block Limit Barriers": "launch__occupancy_limit_barriers",
    "Active Warps Per Scheduler": "smsp__warps_active.avg.per_cycle_active",
    "Eligible Warps Per Scheduler": "smsp__warps_eligible.avg.per_cycle_active",
    "Issued Warp Per Scheduler": "smsp__issue_active.avg.per_cycle_active",
    "One or More Eligible": f"smsp__issue_active.{_OF_ACTIVE}", "No Eligible": f"smsp__issue_inst0.{_OF_ACTIVE}",
    "Warp Cycles Per Issued Instruction": "smsp__average_warp_latency_per_inst_issued.ratio",
    "Warp Cycles Per Executed Instruction": "smsp__average_warps_active_per_inst_executed.ratio",
    "Avg. Active Threads Per Warp": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "Avg. Not Predicated Off Threads Per Warp": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "Branch Instructions": "smsp__inst_executed_op_branch.sum",
    "Branch Instructions Ratio": "derived__smsp__inst_executed_op_branch_pct",
    "Branch Efficiency": "smsp__sass_average_branch_targets_threads_uniform.pct",
    "Avg. Divergent Branches": "smsp__sass_branch_targets_threads_divergent.avg",
}  # fmt: skip
"""Labels of the `details` page with the names of their metrics. Other labels are kept."""


def metric_named(label: str, unit: str) -> str:
    """The metric with this label on the `details` page. `Memory Throughput` is two, which differ in their unit."""
    if label == "Memory Throughput":
        return _SOL_MEMORY if unit.strip() == "%" else "dram__bytes.sum.per_second"
    return LABELS.get(label, label)
