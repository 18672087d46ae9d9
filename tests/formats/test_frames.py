"""How a frame is written and read again."""

from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples

from stepscope.formats.frames import Frame, parsed

NAMES = st.text("abc_<>,:[ ]", min_size=1, max_size=9).filter(lambda one: one.strip() == one)


@given(
    st.builds(
        Frame,
        NAMES,
        st.none() | st.from_regex(r"lib[a-z.0-9+-]{1,9}", fullmatch=True),
        st.none() | st.from_regex(r"[a-z/._<>]{1,9}", fullmatch=True),
        st.none() | st.integers(0, 10**9 - 1),
    )
)
@examples(100)
def test_what_is_written_is_read_again(frame):
    if frame.file is None:
        frame = frame._replace(line=None)
    assert parsed(frame.text()) == frame


def test_operators_of_cpp_are_no_libraries():
    assert parsed("a::operator!=(b, c)") == Frame("a::operator!=(b, c)")
    assert parsed("liba.so!a::operator!=(b)") == Frame("a::operator!=(b)", "liba.so")
