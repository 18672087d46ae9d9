"""Decides whether Python's `re` may need more than linear time for a pattern, and on which text.

`re` tries one path through a pattern after another. Their number grows with the text if two loops can share a part of
it in several ways: if for some text v, the pattern can go on v from a place p to p, from p to another place q, and from
q to q (Weber and Seidl, "On the degree of ambiguity of finite automata", 1991), and what follows q can fail. `search`
starts at every character, which is one more loop in front of the pattern.

Places are the characters of a pattern; a text is made of characters that tell all its classes apart. Repeats up to 128
times count as bounded, so that a pattern may cost a constant factor.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

try:
    from re import _constants as sre
    from re import _parser as parser
except ImportError:  # before Python 3.11
    import sre_constants as sre  # type: ignore[no-redef]
    import sre_parse as parser  # type: ignore[no-redef]

BOUNDED = 128
_COPIES = 2
_CHARACTERS = [*map(chr, range(256)), *"Жж١中\u2028\u3000–█"]
_START, _END = "start", "end"

Condition = Callable[[str, str], bool]
"""Whether a place without a character may be passed, between the character before it and the one after."""


@dataclass
class Place:
    """A character of a pattern, the texts' end, or a fork."""

    characters: frozenset[str] | None = None
    then: list[tuple[int, Condition | None]] = field(default_factory=list)


class Paths:
    """The paths through a pattern.

    Args:
        pattern: the pattern.
        how: the method that is called: `match`, `fullmatch`, or any other, which searches.
    """

    def __init__(self, pattern: re.Pattern[Any], how: str = "search") -> None:
        self.flags = pattern.flags
        self.is_bytes = isinstance(pattern.pattern, bytes)
        self.all = frozenset(c for c in _CHARACTERS if ord(c) < 256 or not self.is_bytes)
        text = pattern.pattern.decode("latin-1") if self.is_bytes else pattern.pattern
        self.places: list[Place] = []
        self.final = self._new()
        self.dead = self._new()
        tree = parser.parse(text, pattern.flags & ~(0 if not self.is_bytes else re.UNICODE) | (0))
        end = self._fork((self.final, _only_end)) if how == "fullmatch" else self.final
        searches = how not in ("match", "fullmatch")
        self.start = self._sequence(list(tree), end, at_start=searches)
        if searches:
            loop = self._new(self.all)
            self.places[loop].then += [(loop, None), (self.start, None)]
            self.start = self._fork((loop, None), (self.start, None))

    def _new(self, characters: Iterable[str] | None = None) -> int:
        self.places.append(Place(None if characters is None else frozenset(characters)))
        return len(self.places) - 1

    def _fork(self, *ways: tuple[int, Condition | None]) -> int:
        place = self._new()
        self.places[place].then += ways
        return place

    def _character(self, characters: Iterable[str], then: int) -> int:
        place = self._new(characters)
        self.places[place].then.append((then, None))
        return place

    # -- from the pattern's tree -------------------------------------------------------------------

    def _sequence(self, items: Sequence[Any], then: int, *, at_start: bool = False) -> int:
        for at in range(len(items) - 1, -1, -1):
            then = self._item(*items[at], then, at_start=at_start and not at)
        return then

    def _item(self, op: Any, value: Any, then: int, *, at_start: bool = False) -> int:
        if (characters := self._set_of(op, value)) is not None:
            return self._character(characters, then)
        if op is sre.SUBPATTERN:
            return self._sequence(list(value[3]), then, at_start=at_start)
        if op is sre.BRANCH:
            return self._fork(*((self._sequence(list(way), then), None) for way in value[1]))
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            return self._repeat(*value, then)
        if op is sre.AT:
            return self._fork((then, self._boundary(value)))
        if op in (sre.ASSERT, sre.ASSERT_NOT):
            return self._look(op is sre.ASSERT, *value, then, at_start=at_start)
        raise NotImplementedError(f"{op} in a pattern")

    def _repeat(self, low: int, high: Any, body: Any, then: int) -> int:
        items = list(body)
        if high is sre.MAXREPEAT or high > BOUNDED:
            loop = self._fork()
            body = self._sequence(items, loop)
            self.places[loop].then += [(body, None), (then, None)]
            # x+ is the loop, entered at x.
            then, low = (body, low - 1) if low else (loop, 0)
        else:
            after = then
            for _ in range(min(high - low, _COPIES)):
                then = self._fork((self._sequence(items, then), None), (after, None))
        for _ in range(min(low, _COPIES)):
            then = self._sequence(items, then)
        return then

    def _look(self, positive: bool, direction: int, body: Any, then: int, *, at_start: bool) -> int:
        items = list(body)
        single = self._set_of_items(items)
        if single is not None:
            return self._fork((then, _looking(positive, direction, single)))
        if direction < 0:
            # A search goes over what comes before the pattern.
            return self._sequence(items, then) if positive and at_start else self._fork((then, _unknown))
        ways = [list(way) for op, value in items if op is sre.BRANCH for way in value[1]]
        sets = [found for way in ways if (found := self._set_of_items(way)) is not None]
        # Of several ways, those of one character are known: none of them may follow.
        further = self._fork((then, _unknown))
        if sets and not positive:
            further = self._fork((further, _looking(positive, direction, frozenset().union(*sets))))
        return self._fork((self._sequence(items, self.dead), None), (further, None))

    def _set_of_items(self, items: Sequence[Any]) -> frozenset[str] | None:
        if len(items) != 1:
            return None
        op, value = items[0]
        if op is sre.SUBPATTERN:
            return self._set_of_items(list(value[3]))
        return self._set_of(op, value)

    def _set_of(self, op: Any, value: Any) -> frozenset[str] | None:
        if op is sre.ANY:
            return self.all if self.flags & re.DOTALL else self.all - {"\n"}
        if op is sre.LITERAL:
            return self._cased({chr(value)})
        if op is sre.NOT_LITERAL:
            return self.all - self._cased({chr(value)})
        if op is not sre.IN:
            return None
        found: set[str] = set()
        negated = False
        for kind, what in value:
            if kind is sre.NEGATE:
                negated = True
            elif kind is sre.LITERAL:
                found |= self._cased({chr(what)})
            elif kind is sre.RANGE:
                found |= self._cased({c for c in self.all if what[0] <= ord(c) <= what[1]})
            elif kind is sre.CATEGORY:
                found |= {c for c in self.all if self._is_of(what, c)}
            else:
                raise NotImplementedError(f"{kind} in a class")
        return frozenset(self.all - found if negated else found)

    def _cased(self, characters: set[str]) -> frozenset[str]:
        if self.flags & re.IGNORECASE:
            characters = {other for c in characters for other in (c, c.lower(), c.upper()) if len(other) == 1}
        return frozenset(characters)

    def _is_of(self, category: Any, character: str) -> bool:
        name = str(category).lower().removeprefix("category_").removeprefix("uni_")
        kind = name.removeprefix("not_")
        is_plain = self.is_bytes or bool(self.flags & re.ASCII)
        letter = {"digit": r"\d", "space": r"\s", "word": r"\w"}[kind]
        return bool(re.match(letter, character, re.ASCII if is_plain else 0)) != name.startswith("not_")

    def _boundary(self, where: Any) -> Condition:
        name = str(where).lower()
        is_word = {c for c in self.all if self._is_of("word", c)}
        multiline = bool(self.flags & re.MULTILINE)
        if "beginning" in name:
            return lambda before, _: before == _START or ("string" not in name and multiline and before == "\n")
        if "non_boundary" in name:
            return lambda before, after: (before in is_word) == (after in is_word)
        if "boundary" in name:
            return lambda before, after: (before in is_word) != (after in is_word)
        if "string" in name:
            return _only_end
        return lambda _, after: after in (_END, "\n")

    # -- the paths -------------------------------------------------------------------------------------

    @cached_property
    def letters(self) -> list[str]:
        """Characters that tell all classes apart, one of each kind."""
        sets = [place.characters for place in self.places if place.characters is not None]
        sets += [frozenset({"\n"}), frozenset(c for c in self.all if self._is_of("word", c))]
        kinds: dict[tuple[bool, ...], str] = {}
        for character in sorted(self.all, key=lambda c: (not c.isalnum(), c)):
            kinds.setdefault(tuple(character in of for of in sets), character)
        # A literal has to be itself: conditions on single characters look at them.
        singles = {next(iter(of)) for of in sets if len(of) == 1}
        return sorted({*kinds.values(), *singles} & self.all)

    def _ways(self, place: int) -> list[tuple[int, tuple[Condition, ...]]]:
        """Where the pattern can be after a place, up to the next characters, with the conditions on each way."""
        ways = []
        stack: list[tuple[int, tuple[Condition, ...], tuple[int, ...]]] = [
            (to, () if condition is None else (condition,), ()) for to, condition in self.places[place].then
        ]
        while stack:
            at, conditions, passed = stack.pop()
            if self.places[at].characters is not None or at in (self.final, self.dead):
                ways.append((at, conditions))
            elif passed.count(at) < 2:  # twice: a loop around what may be empty
                stack += [
                    (to, conditions if condition is None else (*conditions, condition), (*passed, at))
                    for to, condition in self.places[at].then
                ]
        return ways

    @cached_property
    def _known_ways(self) -> dict[int, list[tuple[int, tuple[Condition, ...]]]]:
        return {at: self._ways(at) for at, place in enumerate(self.places) if place.characters or at == self.start}

    @cached_property
    def steps(self) -> dict[tuple[int, str], dict[str, list[int]]]:
        """From a place and the character read there: the places that each next character leads to."""
        steps: dict[tuple[int, str], dict[str, list[int]]] = {}
        ways = self._known_ways
        todo = [(self.start, _START)]
        while todo:
            at, letter = node = todo.pop()
            if node in steps:
                continue
            leads: dict[str, list[int]] = defaultdict(list)
            for to, conditions in ways[at]:
                characters = self.places[to].characters
                if characters is None:
                    continue
                for following in self.letters:
                    if following in characters and all(passes(letter, following) for passes in conditions):
                        leads[following].append(to)
                        todo.append((to, following))
            steps[node] = dict(leads)
        return steps

    @cached_property
    def _sure(self) -> set[int]:
        """The places after which the pattern matches, whatever follows: it ends, or goes on to such a place."""
        sure = {at for at, _ in self.steps}
        while failing := {
            at
            for at, letter in self.steps
            if at in sure and not all(self._is_settled(at, letter, after, sure) for after in (*self.letters, _END))
        }:
            sure -= failing
        return sure

    def _is_settled(self, place: int, letter: str, following: str, sure: set[int]) -> bool:
        """Whether the pattern matches once a place was reached, given the next character."""
        return any(
            (to == self.final or (to in sure and following in (self.places[to].characters or ())))
            and _unknown not in conditions
            and all(passes(letter, following) for passes in conditions)
            for to, conditions in self._known_ways[place]
        )

    @cached_property
    def _components(self) -> dict[tuple[int, str], int]:
        """The number of the loop that a place is in; places outside of loops have none."""
        following = {node: [(to, c) for c, tos in leads.items() for to in tos] for node, leads in self.steps.items()}
        order: list[tuple[int, str]] = []
        seen: set[tuple[int, str]] = set()
        for root in following:
            stack = [(root, iter(following[root]))] if root not in seen else []
            seen.add(root)
            while stack:
                node, rest = stack[-1]
                for to in rest:
                    if to not in seen:
                        seen.add(to)
                        stack.append((to, iter(following[to])))
                        break
                else:
                    order.append(node)
                    stack.pop()
        before: dict[tuple[int, str], list[tuple[int, str]]] = defaultdict(list)
        for node, tos in following.items():
            for to in tos:
                before[to].append(node)
        number: dict[tuple[int, str], int] = {}
        for at, root in enumerate(reversed(order)):
            todo = [] if root in number else [root]
            while todo:
                node = todo.pop()
                if node not in number:
                    number[node] = at
                    todo += [one for one in before[node] if one not in number]
        sizes: dict[int, int] = defaultdict(int)
        for of in number.values():
            sizes[of] += 1
        return {node: of for node, of in number.items() if sizes[of] > 1 or node in following[node]}

    def repeated(self) -> str | None:
        """A text whose repetition makes matching slow; None if there is none."""
        loops = self._components
        for (place, letter), leads in self.steps.items():
            for following, tos in leads.items():
                for to in tos:
                    same = loops.get((place, letter))
                    if same is not None and loops.get((to, following)) == same and tos.count(to) > 1:
                        return following
        for p in loops:
            for q in loops:
                if p[0] != q[0] and p[1] == q[1] and q[0] not in self._sure:
                    text = self._shared(p, q, loops)
                    if text is not None:
                        return text
        return None

    def _shared(self, p: tuple[int, str], q: tuple[int, str], loops: dict[tuple[int, str], int]) -> str | None:
        """A text that leads from p to p, from p to q, and from q to q."""
        first = (p[0], p[0], q[0], p[1])
        texts: dict[tuple[int, int, int, str], str] = {first: ""}
        todo = deque([first])
        while todo:
            node = todo.popleft()
            a, b, c, letter = node
            for following, ways in self.steps[a, letter].items():
                # A path that has matched is the result once it cannot go on: none of the others is tried.
                if self._is_settled(c, letter, following, self._sure) or (
                    loops.get((b, letter)) != loops[p] and self._is_settled(b, letter, following, self._sure)
                ):
                    continue
                others = self.steps[b, letter].get(following, ())
                lasts = self.steps[c, letter].get(following, ())
                for x in set(ways):
                    if loops.get((x, following)) != loops[p]:
                        continue
                    for z in set(lasts):
                        if loops.get((z, following)) != loops[q]:
                            continue
                        for y in set(others):
                            new = (x, y, z, following)
                            if new == (p[0], q[0], q[0], p[1]):
                                return texts[node] + following
                            if new not in texts:
                                texts[new] = texts[node] + following
                                todo.append(new)
        return None


def _unknown(_before: str, _after: str) -> bool:
    """A condition on more than one character, which may or may not hold."""
    return True


def _only_end(_: str, after: str) -> bool:
    return after == _END


def _looking(positive: bool, direction: int, characters: frozenset[str]) -> Condition:
    def passes(before: str, after: str) -> bool:
        return ((after if direction > 0 else before) in characters) == positive

    return passes


def slow_text(pattern: re.Pattern[Any], how: str = "search") -> str | None:
    """A text whose repetition makes a pattern slow; None if its time is linear in the text's length."""
    return Paths(pattern, how).repeated()
