"""Kinds of hostile traces: odd, damaged or malicious text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from fuzz_damage import small_trace
from hostile_kinds import Laid, Place, kind

Event = dict[str, Any]
VALUES: tuple[str, ...] = (
    "true", "false", "null", "1e300", "-1e300", "1e999", "-5", "0", "18446744073709551616", "0.1",
    "NaN", "-Infinity", '"text"', '""', '"12"', '"0x1f"', "[]", "[1, [2, [3]]]", "{}", '{"a": {"b": 1}}',
)  # fmt: skip
KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id", "args")
ARGS = (
    "External id", "correlation", "Sequence number", "Python id", "Python parent id", "Input Dims",
    "Concrete Inputs", "device", "stream", "grid", "block", "bytes", "Collective name", "Group size",
    "Process Group Ranks", "Call stack", "Module Hierarchy", "est. achieved occupancy %",
)  # fmt: skip
OPERATOR: Event = {
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5,
    "args": {"External id": 1, "Input Dims": [[2, 3], [3, 4]]},
}  # fmt: skip
KERNEL: Event = {
    "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 12, "dur": 4,
    "args": {"device": 0, "stream": 7, "correlation": 1, "External id": 1, "grid": [1, 1, 1]},
}  # fmt: skip
LAUNCH: Event = {
    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 11,
    "dur": 1, "args": {"correlation": 1, "External id": 1},
}  # fmt: skip


def changed(event: Event, **changes: Any) -> Event:
    """A copy of an event with other members; `args` are merged."""
    args = changes.pop("args", {})
    return event | changes | {"args": event["args"] | args}


def trace(*events: Event | str, head: str = '"schemaVersion": 1', tail: str = "") -> bytes:
    """The text of a trace; events given as text are used unchanged."""
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return f'{{{head}, "traceEvents": [\n{", ".join(texts)}\n]{tail}}}'.encode()


def sound(count: int = 60) -> list[Event | str]:
    """Events of a sound recording."""
    return [
        changed(event, ts=event["ts"] + 100 * number, args={"External id": number + 1, "correlation": number + 1})
        for number in range(count)
        for event in (OPERATOR, LAUNCH, KERNEL)
    ]


def text(
    name: str, *, lost: bool | None = None, grows: bool = False
) -> Callable[[Callable[[Place], bytes]], Callable[[Place], bytes]]:
    """Declares a function that makes the bytes of one file."""

    def declare(make: Callable[[Place], bytes]) -> Callable[[Place], bytes]:
        @kind(name, lost=lost, grows=grows)
        def laid(place: Place) -> Laid:
            return Laid(place.write("trace.json", make(place)))

        return make

    return declare


# -- cut, empty, padded ----------------------------------------------------------------------------


def _cut(place: Place, low: float, high: float) -> bytes:
    whole = small_trace()
    return whole[: int(len(whole) * place.rng.uniform(low, high))]


text("cut in the head")(lambda place: _cut(place, 0, 0.002))
text("cut between and inside events", lost=True)(lambda place: _cut(place, 0.01, 0.99))
text("cut in the tail", lost=True)(lambda _: small_trace()[:-60])
text("empty")(lambda _: b"")
text("only NULs")(lambda place: bytes(place.size(100 << 20)))
text("NULs behind the end")(lambda place: small_trace() + bytes(place.size(64 << 20)))
text("NULs before the start")(lambda place: bytes(place.size(1 << 20)) + small_trace())
text("only spaces", grows=True)(lambda place: place.rng.choice([b" ", b"\n", b"\t \r\n"]) * place.size(16 << 20))
text("spaces before the start", grows=True)(lambda place: b" \n" * place.size(4 << 20) + small_trace())
text("only commas", grows=True)(lambda place: b"[" + b"," * place.size(8 << 20))
text("only quotes", grows=True)(lambda place: b'{"traceEvents": [' + b'"' * place.size(1 << 20))
text("only braces", grows=True)(lambda place: b'{"traceEvents": [' + b"{" * place.size(1 << 20))
text("random bytes")(lambda place: place.rng.randbytes(place.size(4 << 20)))
text("random bytes in an array", grows=True)(
    lambda place: b'{"traceEvents": [' + place.rng.randbytes(place.size(1 << 20))
)


@text("a hole of NULs", lost=True)
def _hole(place: Place) -> bytes:
    whole = small_trace()
    at = place.rng.randrange(1000, len(whole) - 1000)
    return whole[:at] + bytes(place.size(4 << 20)) + whole[at + 500 :]


@text("spaces inside", grows=True)
def _spaces_inside(place: Place) -> bytes:
    whole = small_trace().decode()
    blanks = place.rng.choice([" ", "\n", "\t"]) * place.size(1 << 20)
    where = place.rng.choice(["}, ", '"ph":', '"ts":', ",\n", '"traceEvents":', '"schemaVersion":'])
    where = where if where in whole else ","
    at = whole.index(where, place.rng.choice([0, 0, 9000]) if where[0] != '"' else 0) + len(where)
    return (whole[:at] + blanks + whole[at:]).encode()


@text("spaces inside, cut", lost=True)
def _spaces_cut(place: Place) -> bytes:
    events = trace(*sound())
    return events[: len(events) // 2] + b" " * place.size(1 << 20) + b"x"


# -- numbers, types, keys --------------------------------------------------------------------------


@text("values of another type")
def _types(place: Place) -> bytes:
    events = sound()
    for number in range(0, len(events), 7):
        event = json.loads(json.dumps(events[number]))
        key, value = place.rng.choice(KEYS), place.rng.choice(VALUES)
        event[key] = "@"
        events[number] = json.dumps(event).replace('"@"', value)
    return trace(*events)


@text("arguments of another type")
def _argument_types(place: Place) -> bytes:
    events = sound()
    for number in range(0, len(events), 5):
        key, value = place.rng.choice(ARGS), place.rng.choice(VALUES)
        event = changed(place.rng.choice([OPERATOR, KERNEL, LAUNCH]), args={key: "@"})
        events[number] = json.dumps(event).replace('"@"', value)
    return trace(*events)


@text("one type for all")
def _one_type(place: Place) -> bytes:
    key, value = place.rng.choice(KEYS[1:]), place.rng.choice(VALUES)
    events = [json.dumps(changed(json.loads(json.dumps(e)))) for e in sound(20)]
    return trace(*(json.dumps(json.loads(e) | {key: "@"}).replace('"@"', value) for e in events))


@text("times that are no numbers", lost=True)
def _times(place: Place) -> bytes:
    value = place.rng.choice(["true", "false", '"x"', "[]", "{}", "NaN", "1e300", "-1e300"])
    return trace(*sound(), json.dumps(changed(OPERATOR, ts="@")).replace('"@"', value))


@text("durations that are no numbers", lost=True)
def _durations(place: Place) -> bytes:
    value = place.rng.choice(["true", '"x"', "[]", "NaN", "1e300", "-1e300", "1e15", "-7", "null"])
    event = place.rng.choice([OPERATOR, KERNEL])
    return trace(*sound(), json.dumps(changed(event, dur="@", ts=999)).replace('"@"', value))


text("times far apart")(
    lambda place: trace(
        *sound(3),
        changed(OPERATOR, ts=place.rng.choice([-8e15, 8e15, 4e15, -1, 2**53])),
        changed(KERNEL, ts=place.rng.choice([-8e15, 8e15, 0]), dur=place.rng.choice([0, 8e15])),
    )
)
text("long durations")(
    lambda place: trace(
        *(changed(event, ts=place.rng.randrange(10**6), dur=8.9e15) for event in [OPERATOR, KERNEL, LAUNCH] * 20)
    )
)
text("numbers of many digits", grows=True)(
    lambda place: trace(*sound(2), json.dumps(OPERATOR).replace("10,", "1" * place.size(100_000) + ","))
)
text("ids beyond 64 bits")(
    lambda place: trace(
        *sound(3), changed(OPERATOR, args={place.rng.choice(ARGS[:5]): 2 ** place.rng.choice([31, 63, 64, 200])})
    )
)
text("zero durations")(lambda _: trace(*(changed(e, dur=0) for e in sound() if isinstance(e, dict))))


@text("kernels without duration", lost=True)
def _no_duration(_: Place) -> bytes:
    return trace(*(changed(e, dur=0) if e["cat"] == "kernel" else e for e in sound()))  # type: ignore[index]


text("negative durations", lost=True)(
    lambda place: trace(*sound(), *(changed(KERNEL, dur=-place.rng.random()) for _ in range(9)))
)
text("events across one another", grows=True)(
    lambda place: trace(
        *(
            changed(event, ts=place.rng.randrange(1000), dur=place.rng.randrange(1000))
            for event in [OPERATOR, KERNEL, LAUNCH] * place.size(3000)
        )
    )
)


@text("keys twice")
def _keys_twice(place: Place) -> bytes:
    key = place.rng.choice(KEYS)
    events = [json.dumps(event) for event in sound()]
    twice = [event[:-1] + f', "{key}": {json.dumps(json.loads(event).get(key, 1))}}}' for event in events]
    return trace(*twice[::3], *events[1::3])


@text("keys twice, another value")
def _keys_differ(place: Place) -> bytes:
    key, value = place.rng.choice((("ts", "20.5"), ("dur", "1"), ("name", '"b"'), ("tid", "3")))
    return trace(*sound(9), json.dumps(OPERATOR)[:-1] + f', "{key}": {value}}}')


@text("metadata twice", grows=True)
def _metadata_twice(place: Place) -> bytes:
    head = ", ".join(f'"traceName": "{number}"' for number in range(place.size(20_000)))
    return trace(*sound(3), head=head or '"a": 1')


@text("odd metadata")
def _metadata(place: Place) -> bytes:
    keys = ("deviceProperties", "distributedInfo", "baseTimeNanoseconds", "schemaVersion", "traceName")
    head = ", ".join(f'"{key}": {place.rng.choice(VALUES)}' for key in keys)
    return trace(*sound(3), head=head)


@text("odd devices and ranks")
def _devices(place: Place) -> bytes:
    def odd() -> str:
        return place.rng.choice(VALUES)

    device = f'{{"id": {odd()}, "name": {odd()}, "totalGlobalMem": {odd()}, "numSms": {odd()}}}'
    info = f'{{"rank": {odd()}, "world_size": {odd()}, "backend": {odd()}, "pg_config": {odd()}}}'
    return trace(*sound(3), head=f'"deviceProperties": [{device}, 1], "distributedInfo": {info}')


@text("many keys", grows=True)
def _many_keys(place: Place) -> bytes:
    odd = ({f"key {n}-{k}": k for k in range(30)} for n in range(place.size(4000)))
    return trace(*sound(3), *(changed(OPERATOR, args=args) for args in odd))


@text("event without end", lost=True, grows=True)
def _endless_event(place: Place) -> bytes:
    return trace(*sound(9))[:-3] + b', {"ph": "X", "name": "' + b"a" * place.size(150 << 20)


text("long texts", grows=True)(lambda place: trace(*sound(3), changed(OPERATOR, name="n" * place.size(20 << 20))))
text("events of other things", lost=True)(
    lambda place: trace(*sound(9), *[place.rng.choice(VALUES[-6:] + VALUES[:6]) for _ in range(99)])
)
text("empty objects", grows=True)(lambda place: trace(*sound(9), *["{}"] * place.size(300_000)))
text("no list of events")(
    lambda place: b'{"traceEvents": ' + place.rng.choice([b"{}", b"null", b"7", b'"x"', b"[]"]) + b"}"
)
text("no events, long", grows=True)(lambda place: b'{"a": [' + b"1," * place.size(16 << 20) + b"1]}")

# -- depth -----------------------------------------------------------------------------------------


@text("nested deep", grows=True)
def _nested(place: Place) -> bytes:
    depth = place.size(100_000)
    opening, closing = place.rng.choice([("[", "]"), ('{"a": ', "}")])
    nested = opening * depth + "1" + closing * (depth if place.rng.random() < 0.5 else 0)
    inside = json.dumps(changed(OPERATOR, args={"Input Dims": "@"})).replace('"@"', nested)
    return place.rng.choice(
        [trace(*sound(9), inside), trace(*sound(9), nested), trace(*sound(9), head=f'"a": {nested}'), nested.encode()]
    )


@text("calls within calls", grows=True)
def _deep_calls(place: Place) -> bytes:
    depth = place.size(30_000)
    calls = (changed(OPERATOR, ts=n, dur=2 * depth - 2 * n) for n in range(depth))
    return trace(*calls, KERNEL, LAUNCH)


@text("started and never ended", grows=True)
def _unended(place: Place) -> bytes:
    phases = place.rng.choice(["B", "E", "BBE", "BE"])
    count = place.size(60_000)
    return trace(*(changed(OPERATOR, ph=phases[n % len(phases)], ts=n, tid=n % 3, dur=0) for n in range(count)))


def _modules(count: int, place: Place, parents: Callable[[int], int]) -> Iterator[Event]:
    for number in range(count):
        args = {"Python id": number + 1, "Python parent id": parents(number + 1)}
        args["Python module id"] = place.rng.randrange(count)
        name = f"nn.Module: Linear_{number % 50}"
        yield changed(OPERATOR, cat="python_function", name=name, ts=number, dur=1, args=args)


text("a circle of frames", grows=True)(
    lambda place: trace(
        *_modules(
            count := place.size(20_000),
            place,
            place.rng.choice([lambda n: n % count + 1, lambda n: n, lambda n: n ^ 1, lambda n: n // 2]),
        )
    )
)
text("deep modules", grows=True)(
    lambda place: trace(
        *(
            changed(event, cat="python_function", ts=n, dur=10**7 - 2 * n)
            for n, event in enumerate(_modules(place.size(5_000), place, lambda n: n - 1))
        )
    )
)
text("paths of modules", grows=True)(
    lambda place: trace(
        *sound(3),
        changed(OPERATOR, cat="user_annotation", name="nn.Module: " + "a." * place.size(20_000)),
        changed(OPERATOR, args={"Module Hierarchy": "A(B)::f." * place.size(20_000)}),
    )
)

# -- many ------------------------------------------------------------------------------------------


@text("many threads", grows=True)
def _threads(place: Place) -> bytes:
    count = place.size(100_000)
    pid, tid = place.rng.choice([(1, 0), (0, 1), (1, 1)])
    return trace(*(changed(OPERATOR, pid=n * pid, tid=n * tid, ts=n % 977) for n in range(count)), KERNEL)


@text("many streams", grows=True)
def _streams(place: Place) -> bytes:
    count = place.size(50_000)
    device, stream = place.rng.choice([(1, 0), (0, 1), (1, 1)])
    return trace(
        *(changed(KERNEL, ts=n, args={"device": n * device % 3000, "stream": n * stream}) for n in range(count))
    )


text("many names of threads", grows=True)(
    lambda place: trace(
        *sound(3),
        *(
            {"ph": "M", "name": "thread_name", "pid": n, "tid": n, "args": {"name": f"t{n}"}}
            for n in range(place.size(100_000))
        ),
    )
)
text("many names and inputs", grows=True)(
    lambda place: trace(
        *(
            changed(OPERATOR, name=f"op{n}", cat=f"c{n % 3000}", ts=n, args={"Input Dims": [[n]]})
            for n in range(place.size(30_000))
        )
    )
)
text("many steps", grows=True)(
    lambda place: trace(
        *(
            changed(OPERATOR, cat="user_annotation", name=f"ProfilerStep#{number}", ts=8 * n)
            for n in range(place.size(20_000))
            for number in [place.rng.choice([n, 5, 2**40, 10**30, -1])]
        ),
        *sound(9),
    )
)
text("circles of flows", grows=True)(
    lambda place: trace(
        *sound(),
        *(
            {
                "ph": phase,
                "cat": place.rng.choice(["ac2g", "fwdbwd", "x"]),
                "id": n % 7,
                "name": "f",
                "pid": 1,
                "tid": 1,
                "ts": place.rng.randrange(6000),
                "bp": "e",
            }
            for n in range(place.size(20_000))
            for phase in "stf"
        ),
    )
)
text("one number for all", grows=True)(
    lambda place: trace(
        *(
            changed(event, ts=n, args={"correlation": 1, "External id": 1, "Sequence number": 1})
            for n in range(place.size(10_000))
            for event in (OPERATOR, LAUNCH, KERNEL)
        )
    )
)
text("odd collectives")(
    lambda place: trace(
        *sound(3),
        *(
            changed(
                KERNEL,
                name="ncclDevKernel",
                args={
                    "Collective name": place.rng.choice(["allreduce", "", "x"]),
                    "Process Group Ranks": place.rng.choice(["[0,", "[]", "[-1]", "[1e99]", "[" * 2000]),
                    "Group size": place.rng.choice([0, -1, 2**62]),
                    "In msg nelems": place.rng.choice([-1, 2**62]),
                    "dtype": place.rng.choice(["", "Float", "?"]),
                },
            )
            for _ in range(40)
        ),
    )
)
text("odd inputs")(
    lambda place: trace(
        *(
            changed(
                OPERATOR,
                ts=8 * n,
                name=place.rng.choice(["aten::mm", "aten::convolution", "aten::bmm"]),
                args={
                    "Input Dims": place.rng.choice(
                        ["x", [[-1, 2]], [[2**62, 2**62], [2**62, 2**62]], [], [[[1]]], [["a"]]]
                    ),
                    "Input type": place.rng.choice(["float", ["float"], [1], []]),
                    "Concrete Inputs": place.rng.choice([[""], ["[9" + "9" * 99], ["[" * 500], "x"]),
                },
            )
            for n in range(60)
        ),
        *sound(3),
    )
)
text("odd memory and counters")(
    lambda place: trace(
        *sound(3),
        *(
            {
                "ph": "i",
                "name": "[memory]",
                "pid": 1,
                "tid": 1,
                "ts": n,
                "s": "t",
                "args": {
                    "Bytes": place.rng.choice([2**63 - 1, -(2**63), 1e300, "x"]),
                    "Device Type": place.rng.choice([1, 99, "x"]),
                    "Total Allocated": 2**63 - 1,
                },
            }
            for n in range(40)
        ),
        *(
            {"ph": "C", "name": "c", "pid": 1, "ts": n, "args": {"a": place.rng.choice([1e308, "x", None])}}
            for n in range(40)
        ),
    )
)

# -- letters ---------------------------------------------------------------------------------------

text("not UTF-8", lost=True)(
    lambda place: small_trace().replace(b"gemm", b"g\xff" + place.rng.randbytes(1) + b"\xe4", 40)
)
text("halves of characters")(
    lambda _: trace(
        *sound(3),
        *(
            json.dumps(changed(OPERATOR, name="@", args={"@": "@"})).replace("@", one)
            for one in ["\\ud800", "\\udfff\\ud800", "\\u0000", "\\u001b[31m", "\\ud83d\\ude00"]
        ),
    )
)
text("byte order mark")(lambda _: b"\xef\xbb\xbf" + small_trace())
text("UTF-16")(
    lambda place: small_trace().decode().encode(place.rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32"]))
)
text("control characters", lost=True)(
    lambda place: small_trace().replace(b"gemm", bytes([place.rng.randrange(32)]) + b"gemm", 30)
)
text("quotes in texts")(lambda place: small_trace().replace(b"aten", b'"at"en"' * place.rng.randrange(1, 30)))
text("backslashes", grows=True)(lambda place: small_trace().replace(b"aten", b"\\" * place.size(4001)))
text("no commas", lost=True)(lambda place: small_trace().replace(b"},", b"}", place.rng.choice([1, 99, 9999])))
text("unclosed texts")(lambda place: small_trace().replace(b'",', b",", place.rng.choice([1, 9, 9999])))
text("two traces")(lambda place: small_trace()[: place.rng.choice([10**9, 9000])] + small_trace())
text("angle brackets", grows=True)(
    lambda place: trace(
        *sound(3),
        *(
            changed(KERNEL, ts=n, name=one)
            for n, one in enumerate(
                [
                    "<" * place.size(100_000),
                    "void f<" * place.size(20_000),
                    "(" * place.size(50_000),
                    "_Z" + "N" * place.size(50_000),
                    "at::native::" * place.size(20_000),
                    " " * place.size(80_000),
                ]
            )
        ),
    )
)
