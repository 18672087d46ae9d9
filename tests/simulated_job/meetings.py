"""The process groups of a job, and where the ranks of one meet."""

import random
from collections import defaultdict
from dataclasses import dataclass

from tests.simulated_job.job import Job, host_of
from tests.simulated_job.moments import Moments


@dataclass(frozen=True)
class Group:
    name: str
    description: str
    ranks: tuple[int, ...]
    stream: int


_MOVED = {"all_reduce": 2, "send_recv": 2}
"""How often the message, beside the share of a group's other ranks, goes over the link of one."""


class Meetings:
    """The process groups, and where the ranks of one meet: the n-th collective of a group is one on all of them."""

    def __init__(self, job: Job, moments: Moments) -> None:
        self.job, self.moments = job, moments
        self.groups: dict[tuple[str, int], Group] = {}
        self.all: list[Group] = []
        width, stages = job.tensor_parallel, job.pipeline_parallel
        everyone = range(job.ranks)
        held = job.ranks // stages
        data = [
            tuple(everyone[stage * held + first : (stage + 1) * held : width])
            for stage in range(stages)
            for first in range(width)
        ]
        for description, stream, members in (
            ("world", 30, [tuple(everyone)]),
            ("data", 20, data),
            ("tensor", 25, [tuple(everyone[i : i + width]) for i in range(0, job.ranks, width)]),
            ("pipeline", 40, [tuple(everyone[i::held]) for i in range(held)] if stages > 1 else []),
        ):
            for ranks in members:
                group = Group(str(len(self.all)), description, ranks, stream)
                self.all.append(group)
                self.groups.update({(description, rank): group for rank in ranks})
        self.by_name = {group.name: group for group in self.all}
        self.counts: dict[tuple[int, str], int] = defaultdict(int)
        self.met: dict[tuple[str, int], tuple[int, str, int, int]] = {}
        self.draw = random.Random(f"{job.seed} transfers")  # noqa: S311

    def next(self, rank: int, operation: str, group: Group, size: int) -> tuple[int, int, int]:
        """Number of the rank's next collective in the group, where its ranks meet, and its transfer (ns)."""
        self.counts[rank, group.name] += 1
        sequence = self.counts[rank, group.name]
        if (group.name, sequence) not in self.met:
            job = self.job
            hosts = {host_of(job, rank) for rank in group.ranks}
            speed = job.bytes_per_us if len(hosts) == 1 else job.bytes_per_us / 4
            share = (len(group.ranks) - 1) / len(group.ranks) * _MOVED.get(operation, 1)
            ns = job.latency_ns + 1000 * size * share / speed
            ns *= (1 + job.jitter * self.draw.uniform(-1, 1)) * job.factors.get("transfer", 1.0)
            self.met[group.name, sequence] = (self.moments.after(rank), operation, size, round(ns))
        join, _, _, ns = self.met[group.name, sequence]
        return sequence, join, ns

    def pair(self, group: Group, source: int, destination: int) -> Group:
        """The two ranks of a pipeline between which one hands on, with a stream for each direction."""
        name = f"{group.name}: {source} > {destination}"
        if name not in self.by_name:
            stream = group.stream + (source > destination) + 2 * group.ranks.index(source)
            self.by_name[name] = Group(name, group.description, (source, destination), stream)
        return self.by_name[name]
