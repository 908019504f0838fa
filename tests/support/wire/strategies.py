"""What Hypothesis draws for records: few fields, among them long ones and none."""

from __future__ import annotations

from hypothesis import strategies as st

from ottla.wire.records import Record

_BYTES = st.one_of(st.none(), st.binary(max_size=9), st.sampled_from([b"x" * 100, b"y" * 9000]))
_HEADER = st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3)))
RECORD = st.builds(
    Record,
    _BYTES,
    _BYTES,
    st.integers(min_value=-1, max_value=1 << 45),
    st.lists(_HEADER, max_size=3).map(tuple),
    st.just(-1),
)
