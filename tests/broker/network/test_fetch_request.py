"""The followers' Fetch request, which kcli lays out by hand, has the bytes that kio writes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.network.peers import new_request, request_frame
from kcli.broker.wire import fetch_request
from kcli.broker.wire.messages import messages

INT32, INT64 = st.integers(-1, 2**31 - 1), st.integers(-1, 2**63 - 1)
TOPIC = st.builds(lambda number: UUID(int=number), st.integers(1, 2**128 - 1))
PARTITION = st.fixed_dictionaries(
    {
        "partition": INT32,
        "current_leader_epoch": INT32,
        "fetch_offset": INT64,
        "last_fetched_epoch": INT32,
        "log_start_offset": INT64,
        "partition_max_bytes": INT32,
    }
)
REQUEST = st.fixed_dictionaries(
    {
        "replica_state": st.fixed_dictionaries({"replica_id": st.integers(0, 2**31 - 1), "replica_epoch": INT64}),
        "max_wait": st.integers(0, 2**31 - 1),
        "min_bytes": INT32,
        "max_bytes": INT32,
        "session_id": INT32,
        "session_epoch": INT32,
        "topics": st.lists(
            st.fixed_dictionaries({"topic_id": TOPIC, "partitions": st.lists(PARTITION, max_size=3)}), max_size=3
        ),
        "forgotten_topics_data": st.lists(
            st.fixed_dictionaries({"topic_id": TOPIC, "partitions": st.lists(INT32, max_size=3)}), max_size=3
        ),
    }
)


@given(REQUEST)
def test_it_is_what_kio_writes(fields: dict[str, Any]) -> None:
    kind = messages(1, fetch_request.VERSION)
    laid = fetch_request.lay_out(fields)
    assert laid is not None
    assert request_frame(kind, "c", 7, laid) == request_frame(kind, "c", 7, new_request(kind, fields))


def test_other_fields_are_kios() -> None:
    assert fetch_request.lay_out({"max_wait": 1}) is None
