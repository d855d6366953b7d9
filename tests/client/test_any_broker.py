"""Which brokers a request is sent to where some do not answer."""

from __future__ import annotations

import pytest

from kcli.client.security import PLAIN_TEXT
from kcli.client.wire import LISTED_TRIED, AnyBroker, NobodyAnswers, Server


def asked(brokers: AnyBroker, alive: set[int]) -> tuple[list[int], int | None]:
    """Ask brokers of which those with these ports are alive. Return the ports tried and the port that answered."""
    tried: list[int] = []

    def send(server: Server) -> int:
        tried.append(server.port)
        if server.port not in alive:
            raise ConnectionRefusedError(111, f"port {server.port}")
        return server.port

    try:
        return tried, brokers.ask(send)
    except NobodyAnswers:
        return tried, None


def test_a_bootstrap_server_that_answered_last_is_asked_first() -> None:
    brokers = AnyBroker("a:1,a:2", 1.0, PLAIN_TEXT)
    assert asked(brokers, {2}) == ([1, 2], 2)
    assert asked(brokers, {1, 2}) == ([2], 2)


def test_brokers_that_the_cluster_listed_answer_once_the_bootstrap_servers_are_gone() -> None:
    brokers = AnyBroker("a:1", 1.0, PLAIN_TEXT)
    brokers.learn(brokers.server("a", port) for port in (1, 2))
    assert asked(brokers, {1, 2}) == ([1], 1)
    assert asked(brokers, {2}) == ([1, 2], 2)
    brokers.learn([brokers.server("a", 3)])
    assert asked(brokers, {2}) == ([1, 3], None), "the cluster no longer lists broker 2"


def test_a_request_tries_a_few_of_many_listed_brokers_and_the_next_request_others() -> None:
    brokers = AnyBroker("a:1", 1.0, PLAIN_TEXT)
    listed = {*range(2, 2 + 2 * LISTED_TRIED)}
    brokers.learn(brokers.server("a", port) for port in listed)
    first, second = asked(brokers, set())[0], asked(brokers, set())[0]
    assert first[0] == second[0] == 1
    assert len(first) == len(second) == 1 + LISTED_TRIED
    assert {*first[1:], *second[1:]} == listed


def test_the_error_is_that_of_the_bootstrap_servers() -> None:
    brokers = AnyBroker("a:1", 1.0, PLAIN_TEXT)
    brokers.learn([brokers.server("a", 2)])

    def refuse(server: Server) -> None:
        raise ConnectionRefusedError(111, f"port {server.port}")

    with pytest.raises(NobodyAnswers, match=r"a:1: no broker answers \(port 1\)"):
        brokers.ask(refuse)
