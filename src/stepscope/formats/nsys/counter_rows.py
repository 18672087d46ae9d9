"""Metrics of devices and network cards that were sampled while the program ran, as rows of `counter`.

Sampling reads a device, not a process: a process gets the samples of the devices that its work ran on, under its own
index of them. Network cards belong to the node; their samples are kept with the first process of a file, so that they
are in the recording once.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats import vocabulary
from stepscope.formats.bounded import real, real_in
from stepscope.formats.cupti.columns import constant, mapped, timed
from stepscope.formats.nsys.export import CARDS, GENERIC, METRICS, pid_of
from stepscope.formats.sqlite import Database
from stepscope.formats.tables import READ, ReadReport

DEVICES, NETWORK = "device metrics", "network metrics"
_GPU = 0xFF
"""The bits of a sample type that hold the device."""
_SOURCE = "GpuMetrics"
_MAX_METRICS = 4096
_HERTZ = 1e6


def counters(database: Database, process: int | None, used: set[int], report: ReadReport, *, first: bool) -> pa.Table:
    """Table `counter`, with the times as recorded."""
    device_of_gpu = _devices(database, process, used)
    parts = [_sampled(database, device_of_gpu), _generic(database, device_of_gpu)]
    if first:
        parts.append(_network(database))
    table = pa.concat_tables([part for part in parts if part.num_rows] or [_empty()])
    return timed(table, "time_ns", report)


def _sampled_devices(database: Database) -> set[int]:
    """The devices that were sampled, as the file numbers them."""
    types = database.distinct(METRICS, "typeId") | set(_generic_types(database))
    return {type_id & _GPU for type_id in types}


def _devices(database: Database, process: int | None, used: set[int]) -> dict[int, int]:
    """The devices whose samples a process gets, and their indices there; all if no work ran on any."""
    listed = {
        gpu: cuda
        for gpu, cuda, pid in database.rows("TARGET_INFO_CUDA_DEVICE", ("gpuId", "cudaId", "pid"))
        if gpu is not None and cuda is not None
        if process is None or pid is None or pid == pid_of(process)
    }
    gpus = _sampled_devices(database)
    numbered = listed if listed else {gpu: gpu for gpu in gpus}
    if not used:
        return {gpu: listed.get(gpu, gpu) for gpu in gpus}
    return {gpu: cuda for gpu, cuda in numbered.items() if cuda in used}


def _sampled(database: Database, device_of_gpu: dict[int, int]) -> pa.Table:
    """Samples with a row for each value, as in exports since 2023."""
    columns = ("typeId", "metricId", "metricName")
    listed = database.rows("TARGET_INFO_GPU_METRICS", columns, metricName="text")
    named = {(type_id, metric): name for type_id, metric, name in listed if name}
    rows = database.columns(METRICS, ("timestamp", "rawTimestamp", "typeId", "metricId", "value"), value="number")
    if not rows.num_rows or not device_of_gpu:
        return _empty()
    time = pc.coalesce(rows["timestamp"], rows["rawTimestamp"])
    kind = rows["typeId"].fill_null(-1).to_numpy()
    metric = rows["metricId"].fill_null(-1).to_numpy()
    pairs, place = np.unique(np.stack([kind, metric]), axis=1, return_inverse=True)
    if pairs.shape[1] > _MAX_METRICS:
        return _empty()
    keys = [(int(type_id), int(number)) for type_id, number in pairs.T]
    names = [named.get(pair, f"metric {pair[1]}") for pair in keys]
    indices = [str(device_of_gpu.get(type_id & _GPU, "")) if type_id >= 0 else "" for type_id, _ in keys]
    return _rows(DEVICES, time, rows["value"], place.ravel(), names, indices)


def _generic(database: Database, device_of_gpu: dict[int, int]) -> pa.Table:
    """Samples with a text of all values each, as in exports until 2022."""
    types = _generic_types(database)
    if not types:
        return _empty()
    numbering: dict[tuple[str, int], int] = {}
    times: list[int] = []
    values: list[float] = []
    place: list[int] = []
    columns = ("timestamp", "rawTimestamp", "typeId", "data")
    for time, raw, kind, text in database.each(GENERIC, columns, data="text"):
        moment = raw if time is None else time
        if kind not in types or kind & _GPU not in device_of_gpu or moment is None:
            continue
        for name, value in _literal(text).items():
            number = _number(value)
            if number is not None and len(numbering) < _MAX_METRICS:
                times.append(moment)
                values.append(number)
                place.append(numbering.setdefault((name, kind & _GPU), len(numbering)))
    return _rows(
        DEVICES,
        pa.chunked_array([pa.array(times, pa.int64())]),
        pa.chunked_array([pa.array(values, pa.float64())]),
        np.array(place, np.int64),
        [name for name, _ in numbering],
        [str(device_of_gpu[gpu]) for _, gpu in numbering],
    )


def _generic_types(database: Database) -> list[int]:
    """The types of generic events that are samples of devices."""
    sources = {
        source
        for source, data in database.rows("GENERIC_EVENT_SOURCES", ("sourceId", "data"), data="text")
        if _literal(data).get("Name") == _SOURCE
    }
    listed = database.rows("GENERIC_EVENT_TYPES", ("typeId", "sourceId"))
    return [kind for kind, source in listed if source in sources and kind is not None]


def _literal(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    return real_in(value) if isinstance(value, str) else real(value)


def _network(database: Database) -> pa.Table:
    """The counts of network cards; a value covers the time from its start to its end."""
    rows = database.columns(
        CARDS, ("start", "globalId", "portId", "metricsListId", "metricsIdx", "value"), value="number"
    )
    if not rows.num_rows:
        return _empty()
    listed = database.rows(
        "TARGET_INFO_NETWORK_METRICS", ("metricsListId", "metricsIdx", "name", "unit"),
        name="text", unit="text",
    )  # fmt: skip
    named = {(global_id, metric): (name, unit) for global_id, metric, name, unit in listed if name}
    cards = dict(database.rows("TARGET_INFO_NIC_INFO", ("nicId", "name"), name="text"))
    card_of = {global_id: cards.get(nic) for nic, global_id in database.rows("NIC_ID_MAP", ("nicId", "globalId"))}
    keys = np.stack([rows[name].fill_null(-1).to_numpy() for name in rows.column_names[1:5]])
    distinct, place = np.unique(keys, axis=1, return_inverse=True)
    if distinct.shape[1] > _MAX_METRICS:
        return _empty()
    metrics = [tuple(int(value) for value in key) for key in distinct.T]
    names_and_units = [
        named.get((global_id, metric), (f"metric {metric}", None)) for _, _, global_id, metric in metrics
    ]
    ports = [f"{card_of.get(card) or f'card {card}'}:{port}" for card, port, _, _ in metrics]
    return _rows(
        NETWORK,
        rows["start"],
        rows["value"],
        place.ravel(),
        [name for name, _ in names_and_units],
        ports,
        [unit for _, unit in names_and_units],
    )


def _rows(
    track: str,
    time: pa.ChunkedArray,
    value: pa.ChunkedArray,
    place: np.ndarray[Any, np.dtype[np.int64]],
    names: list[str],
    owners: list[str],
    units: list[str | None] | None = None,
) -> pa.Table:
    """Rows of the metrics at `place`; those without an owner are left out."""
    place_ = pa.array(place.astype(np.int32))

    def each(texts: list[str | None]) -> pa.DictionaryArray:
        coded = pa.DictionaryArray.from_arrays(place_, pa.array(texts, pa.string()))
        return mapped(coded, lambda value: value)

    kinds = [vocabulary.counter_kind(name) for name in names]
    stated = units or [unit for _, unit in kinds]
    amount = value.combine_chunks().to_numpy(zero_copy_only=False)
    # Clocks claim to be in MHz, but are in Hz from some version on.
    clock = np.array([unit == "Hz" for unit in stated], bool)[place]
    amount = np.where(clock & (amount < _HERTZ), amount * _HERTZ, amount)
    table = pa.table(
        {
            "track": constant(track, len(place)),
            "series": each([*names]),
            "kind": each([kind for kind, _ in kinds]),
            "unit": each([*stated]),
            "pid": each([owner or None for owner in owners]),
            "time_ns": time,
            "value": pa.array(amount, from_pandas=True),
        },
        schema=READ["counter"],
    )
    return table.filter(pc.is_valid(table["pid"]))


def _empty() -> pa.Table:
    return READ["counter"].empty_table()
