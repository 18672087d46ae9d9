"""Which call created each node of a CUDA graph, if the recorder noted when nodes were created.

A graph is copied when it is instantiated, and its nodes get new numbers: each copy names its original node.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from stepscope.link.columns import numbers, places
from stepscope.link.device import Device
from stepscope.link.host import NOWHERE, Host
from stepscope.schema.arrays import Int32s, Int64s

_MAX_COPIES = 16
"""A longer chain of copies of copies is damage."""


def node_ids(device: Device) -> Int64s:
    """The number of the graph node that each device event ran, 0 for none."""
    return numbers(device.table, "graph_node_id")


def created_at(host: Host, device: Device, graph_node: pa.Table) -> Int32s:
    """Position of the innermost host event in which the node of each device event was first created; -1 for none."""
    put_in = np.full(len(device), NOWHERE, dtype=np.int32)
    if not graph_node.num_rows:
        return put_in
    node, original = numbers(graph_node, "node"), numbers(graph_node, "original", missing=-1)
    thread, time = numbers(graph_node, "thread", missing=-1), numbers(graph_node, "start_ns")
    # A copy may be recorded twice, once without its original.
    order = np.lexsort((time, original < 0, node))
    order = order[np.unique(node[order], return_index=True)[1]]
    nodes = node[order]
    above = places(nodes, original[order])
    first = np.arange(len(order))
    for _ in range(_MAX_COPIES):
        first = np.where(above[first] >= 0, above[first], first)
    # A node that still has an original is in a circle, or the creation of its original was not recorded.
    lost = original[order][first] >= 0
    row = order[first]
    position = np.where(lost, NOWHERE, host.innermost(thread[row], time[row]))
    at = places(nodes, node_ids(device))
    put_in[at >= 0] = position[at[at >= 0]]
    put_in[node_ids(device) <= 0] = NOWHERE
    return put_in
