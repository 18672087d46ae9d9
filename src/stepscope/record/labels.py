"""Parses the names of events in a plan, which decide what is measured.

| label                                  | what it is                                              |
| -------------------------------------- | ------------------------------------------------------- |
| `layers.0.attn.forward`                | a module's forward (`forward`: the complete model's)    |
| `layers.0.attn.backward`               | a module's backward                                     |
| `fc1.forward.aten::addmm`              | an operator inside a module's forward                   |
| `fc1.backward.aten::mm`                | an operator inside a module's backward                  |
| `fc1.backward.AddmmBackward0`          | an autograd node of the module                          |
| `backward`                             | the complete backward                                   |
| `optimizer.step`, `zero_grad`          | of every optimizer                                      |
| `collective.all_reduce`                | a collective that the job calls itself                  |
| `input_wait`                           | the wait for the next batch                             |
| `host_to_device`                       | a copy of a tensor from the host to a device            |
| anything else                          | a region: `with stepscope.region("interaction")`        |

`#2` at the end selects one occurrence within the iteration, counted from 0; without it every occurrence is its own
event. `*` matches any characters but a dot, `**` any.
"""

from __future__ import annotations

import functools
import itertools
import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["module", "operator", "node", "backward", "named", "collective", "region"]
Direction = Literal["forward", "backward"]

NAMED = ("optimizer.step", "zero_grad", "input_wait", "host_to_device")
"""Labels without parts."""

_NODE = re.compile(r"[A-Z]\w*Backward\d*")
# The last direction counts, because the backward half of a two-way layer may be a module `rnn.backward`.
_INSIDE = re.compile(r"(?:(?P<module>.+)\.)?(?P<direction>forward|backward)(?:\.(?P<name>.+))?", re.DOTALL)
_OCCURRENCE = re.compile(r"(?P<label>.*)#(?P<occurrence>\d+)")


@dataclass(frozen=True, slots=True)
class Label:
    """A parsed label; `module` is "" for the complete model, and `occurrence` None for all in an iteration."""

    text: str
    kind: Kind
    module: str | None = None
    direction: Direction | None = None
    name: str | None = None
    occurrence: int | None = None

    @property
    def has_wildcard(self) -> bool:
        return "*" in self.text

    @property
    def in_loops_thread(self) -> bool:
        """Whether it only counts in the training loop's own thread.

        Forwards do, because a thread that evaluates calls the same modules. Autograd has its own threads, and a region
        may be anywhere.
        """
        return self.direction == "forward"

    def matches(self, label: str, occurrence: int) -> bool:
        """Whether it matches an event with this label and occurrence.

        >>> parse_label("TopMLP.*.forward").matches("TopMLP.fc4.forward", 0)
        True
        """
        if self.occurrence is not None and occurrence != self.occurrence:
            return False
        if not self.has_wildcard:
            return self.text == label
        return pattern(self.text).fullmatch(label) is not None


@functools.cache
def pattern(text: str) -> re.Pattern[str]:
    """A label with wildcards as a regular expression (cached, because the same few recur).

    What follows a wildcard is matched at its first occurrence. That is enough: whatever can follow a later occurrence
    can follow the first, too. So the search never backtracks, and many wildcards take no longer.
    """
    first, *others = re.split(r"\*\*+", text)
    numbers = itertools.count()

    def once(expression: str) -> str:
        # Python 3.10 has no atomic groups.
        name = f"found{next(numbers)}"
        return f"(?=(?P<{name}>{expression}))(?P={name})"

    def within(part: str, last: bool) -> str:
        start, *parts = map(re.escape, part.split("*"))
        ends = "[^.]*" + parts.pop() if last and parts else ""
        return start + "".join(once("[^.]*?" + part) for part in parts) + ends

    if not others:
        return re.compile(within(first, True))
    *between, last = others
    return re.compile(
        within(first, False)
        + "".join(once(".*?" + within(part, False)) for part in between)
        + ".*"
        + within(last, True)
    )


def parse_label(text: str) -> Label:
    """Parses a label.

    Raises:
        ValueError: it is empty.

    >>> parse_label("BottomMLP.fc1.forward.aten::addmm#1").name
    'aten::addmm'
    """
    text = text.strip()
    occurrence = None
    match = _OCCURRENCE.fullmatch(text)
    if match is not None:
        text, occurrence = match["label"].strip(), int(match["occurrence"])
    if not text:
        raise ValueError("a label is empty")
    if text in NAMED:
        return Label(text, "named", occurrence=occurrence)
    if text == "backward":
        return Label(text, "backward", occurrence=occurrence)
    if text.startswith("collective."):
        return Label(text, "collective", name=text.removeprefix("collective."), occurrence=occurrence)
    inside = _INSIDE.fullmatch(text)
    if inside is not None:
        module = inside["module"] or ""
        direction: Direction = "forward" if inside["direction"] == "forward" else "backward"
        name = inside["name"]
        if name is None:
            return Label(text, "module", module, direction, None, occurrence)
        if "::" in name:
            return Label(text, "operator", module, direction, name, occurrence)
        if direction == "backward" and (_NODE.fullmatch(name) or name == "*"):
            return Label(text, "node", module, direction, name, occurrence)
        if name == "*":
            return Label(text, "operator", module, direction, name, occurrence)
    return Label(text, "region", occurrence=occurrence)


def label_in_layer(layer: str, direction: Direction, event: str) -> str:
    """The label of an event that a plan lists under a layer.

    A plan of layers has `fc1: forward_events: [forward, aten::addmm, fprop]`: a module's forward, an operator inside
    it, and the region `fc1.fprop`.

    >>> label_in_layer("fc1", "forward", "aten::addmm")
    'fc1.forward.aten::addmm'
    """
    bare = event.split("#", 1)[0].strip()
    if bare == direction:
        return f"{layer}.{event}"
    if "::" in bare or (direction == "backward" and _NODE.fullmatch(bare)):
        return f"{layer}.{direction}.{event}"
    return f"{layer}.{event}"
