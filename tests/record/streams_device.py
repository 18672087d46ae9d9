"""A device of several streams, each as far behind the host as the work it was given, with CUDA's rules.

It stands where `torch.cuda` does. An event is done when its stream has come to it; two events of which
one is not done have no time between them, and asking raises. A captured graph runs its external
events again at each replay; until then they keep the times of the replay before. What CUDA
refuses while a stream is being captured is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace


@dataclass(eq=False)
class Stream:
    """Work in order; `until_ns` is when the last of it ends."""

    stream_id: int
    until_ns: int = 0
    device: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(index=0))


@dataclass(eq=False)
class Graph:
    """What a capture has recorded: how long it runs, and its external events with their offsets."""

    time_ns: int = 0
    events: list[tuple[Event, int]] = field(default_factory=list)


class Event:
    """An event of `StreamsDevice`, as `torch.cuda.Event` is one of torch's."""

    def __init__(self, device: StreamsDevice, *, external: bool = False) -> None:
        self._device = device
        self._external = external
        self._times_ns: list[int] = []

    def record(self, stream: Stream) -> None:
        graph = self._device.capture
        if graph is not None:
            if not self._external:
                raise RuntimeError("an ordinary event was recorded into a capture")
            graph.events.append((self, graph.time_ns))
            return
        self._times_ns = [max(self._device.now_ns, stream.until_ns)]

    def reached_at(self, time_ns: int) -> None:
        """A replay comes to this node of its graph then."""
        self._times_ns.append(time_ns)

    def _at_ns(self) -> int | None:
        past = [time_ns for time_ns in self._times_ns if time_ns <= self._device.now_ns]
        return past[-1] if past else None

    def query(self) -> bool:
        self._refused_in_capture()
        # A node of a graph that is to run again has been reached: the last time.
        return not self._times_ns or self._at_ns() is not None

    def elapsed_time(self, other: Event) -> float:
        self._refused_in_capture()
        start, stop = self._at_ns(), other._at_ns()
        if start is None or stop is None:
            raise RuntimeError("CUDA error: device not ready")
        return (stop - start) / 1e6

    def _refused_in_capture(self) -> None:
        if self._device.capture is not None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")


class StreamsDevice:
    """The device, and the host's clock beside it."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.main = Stream(0)
        self.stream = self.main
        self.capture: Graph | None = None

    def Event(self, *, enable_timing: bool, external: bool = False) -> Event:
        assert enable_timing
        return Event(self, external=external)

    def current_stream(self, _device: int | None = None) -> Stream:
        return self.stream

    def is_current_stream_capturing(self) -> bool:
        return self.capture is not None

    def launch(self, time_ns: int) -> None:
        """Work of this length on the current stream."""
        if self.capture is not None:
            self.capture.time_ns += time_ns
        else:
            self.stream.until_ns = max(self.now_ns, self.stream.until_ns) + time_ns

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        """Work goes to another stream."""
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    def captured(self, work: Callable[[], object]) -> Graph:
        """The graph of some work."""
        graph = self.capture = Graph()
        try:
            work()
        finally:
            self.capture = None
        return graph

    def replay(self, graph: Graph, *, times: int = 1) -> None:
        """Runs a graph on the current stream, so many times slower than its work says."""
        start_ns = max(self.now_ns, self.stream.until_ns)
        for event, offset_ns in graph.events:
            event.reached_at(start_ns + offset_ns * times)
        self.stream.until_ns = start_ns + graph.time_ns * times
