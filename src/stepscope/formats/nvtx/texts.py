"""Parses the texts of ranges to numbers of distinct markers; texts that differ only in their numbers are parsed once.

torch numbers each call that it marks (`aten::mm, seq = 7, op_id = 9`), so that a recording has as many
texts as operators. Column operations make them alike and keep autograd's numbers beside them.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from stepscope.formats.nvtx.markers import Marker, parse_marker
from stepscope.formats.vocabulary import NAMELESS_RANGE

_NUMBER = r", (op_id|seq) = [0-9]{1,18}\b"
_INSIDE = re.compile(r", (?:op_id|seq) = ")
_SEQUENCE = r", seq = (?P<number>[0-9]{1,18})\b"
_LAST = ", op_id = "
_GIVEN = ", input_op_ids = ["
_GIVEN_BY = r", input_op_ids = \[[^\[\]]*\]$"
"""The operators that made an operator's inputs; ignored."""


class Texts:
    """Parses texts, and numbers their distinct markers.

    Attributes:
        markers: the markers, by number. Those of texts made alike have the sequence number 0.
    """

    def __init__(self) -> None:
        self.markers: list[Marker] = []
        self._generic: dict[str, int | None] = {}
        self._separate: dict[str, int] = {}

    def named(self, name: str) -> set[int]:
        """The numbers of the markers with this name."""
        return {number for number, marker in enumerate(self.markers) if marker.name == name}

    def read(self, texts: pa.Array) -> pa.StructArray:
        """Reads texts; a NULL is a range without a name.

        Returns:
            for each text `marker`, the number of its marker (int32), and `sequence`, autograd's number
            (int64), NULL if it has none.
        """
        named = texts.fill_null(NAMELESS_RANGE)
        coded = _without_last_number(named).dictionary_encode()
        distinct = coded.dictionary
        generic = distinct
        if pc.any(pc.match_substring(generic, _GIVEN)).as_py():
            generic = pc.replace_substring_regex(generic, _GIVEN_BY, f"{_GIVEN}]")
        generic = pc.replace_substring_regex(generic, _NUMBER, r", \1 = 0").dictionary_encode()
        numbers_of_generic = pa.array([self._of_generic(text) for text in generic.dictionary.to_pylist()], pa.int32())
        marker = numbers_of_generic.take(generic.indices).take(coded.indices)
        sequence = pc.struct_field(pc.extract_regex(distinct, _SEQUENCE), "number").cast(pa.int64())
        sequence = sequence.take(coded.indices)
        if marker.null_count:
            separate = named.filter(marker.is_null()).dictionary_encode()
            numbers = [self._of_separate(text) for text in separate.dictionary.to_pylist()]
            stated = pa.array([self.markers[number].sequence for number in numbers], pa.int64())
            place = marker.is_null()
            sequence = pc.replace_with_mask(sequence, place, stated.take(separate.indices))
            marker = pc.replace_with_mask(marker, place, pa.array(numbers, pa.int32()).take(separate.indices))
        numbered = pa.array([parsed.sequence is not None for parsed in self.markers], pa.bool_())
        sequence = pc.if_else(numbered.take(marker), sequence, pa.scalar(None, pa.int64()))
        return pa.StructArray.from_arrays([marker, sequence], ["marker", "sequence"])

    def _of_generic(self, text: str) -> int | None:
        """The number of the marker that all texts like this one share; None if each has its own."""
        if text not in self._generic:
            marker = parse_marker(text)
            is_generic = (
                marker.sort == "operator"
                and text.count(", seq = ") < 2
                and not _INSIDE.search(marker.name + (marker.values or ""))
            )
            self._generic[text] = self._add(marker) if is_generic else None
        return self._generic[text]

    def _of_separate(self, text: str) -> int:
        if text not in self._separate:
            self._separate[text] = self._add(parse_marker(text))
        return self._separate[text]

    def _add(self, marker: Marker) -> int:
        self.markers.append(marker)
        return len(self.markers) - 1


def _without_last_number(texts: pa.Array) -> pa.Array:
    """Texts with 0 for the number of a call at their end, which differs in each: regular expressions
    then search only a third of them."""
    stem = pc.ascii_rtrim(texts, "0123456789")
    digits = pc.subtract(pc.binary_length(texts), pc.binary_length(stem))
    numbered = pc.and_(pc.ends_with(stem, _LAST), pc.and_(pc.greater(digits, 0), pc.less(digits, 19)))
    if not pc.any(numbered).as_py():
        return texts
    return pc.if_else(numbered, pc.binary_join_element_wise(stem, "0", ""), texts)
