"""Bad requests to coordinators and partitions get the same error from real Kafka and from kcli, and change no group,
transaction or log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kcli.protocol.error_code import ErrorCode
from tests.broker.running import Client
from tests.broker.transactional import OPEN
from tests.client.clusters import CLUSTERS
from tests.interop.bad_requests import CASES
from tests.interop.coordinated import World


def errors(answer: Any) -> set[str]:
    """The names of all errors in an answer."""
    if isinstance(answer, list | tuple):
        return set().union(*map(errors, answer))
    if not isinstance(answer, dict):
        return set()
    own = {ErrorCode(each).name for name, each in answer.items() if name.endswith("error_code") and each}
    return own.union(*map(errors, answer.values()))


@pytest.fixture(scope="module", params=CLUSTERS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with request.param() as bootstrap:
        host, _, port = bootstrap.rpartition(":")
        with Client((host, int(port))) as client:
            found = World(client)
            found.build()
            yield found
        while OPEN:
            OPEN.pop().socket.close()


@pytest.mark.parametrize("case", CASES)
def test_it_is_an_error_and_nothing_has_changed(world: World, case: str) -> None:
    api, version, request, expected = CASES[case]
    before = world.state()
    answer = world.call(api, version, **request(world))
    assert errors(answer) == {expected}
    assert world.state() == before
