"""A node's connections to a listener of another node: accepted, or refused with one line and a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from formats.batch_writer import write_batch
from kcli.broker.network.client import SocketNetwork
from kcli.broker.network.outbound import Outbound
from kcli.broker.network.peers import LoginFailed
from kcli.protocol.error_code import ErrorCode
from kcli.security.client_login import client_login
from kcli.security.sasl import generic_failure
from kcli.security.scram import MECHANISMS
from kcli.tls.certificates import make_authority
from kcli.tls.contexts import client_context
from tests.broker.security.secured import NOW, Secured, secured_node
from tests.broker.security.test_listeners import AUTHORIZED, principals

LISTENERS = {"SASL": False, "SASL_SSL": True}
"""Listener -> whether it has TLS."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("node")
    with secured_node(folder, AUTHORIZED) as node:
        with node.connect("PLAINTEXT") as admin:
            for mechanism in MECHANISMS.values():
                salted = mechanism.salted("pw", b"salt", 4096)
                credential = {"name": "alice", "mechanism": mechanism.code, "iterations": 4096, "salt": b"salt"}
                request = [credential | {"salted_password": salted}]
                answer = admin.call("alter_user_scram_credentials", 0, deletions=[], upsertions=request)
                assert answer["results"][0]["error_code"] == 0
            admin.create_topic("t", 1)
        yield node


def outbound(secured: Secured, listener: str, login: tuple[str, str, str] | None, **settings: str) -> Outbound:
    """How to connect to a listener. login: mechanism, name and password. settings: of TLS, with _ for the dots."""
    dotted = {name.replace("_", "."): text for name, text in settings.items()}
    has_tls = LISTENERS.get(listener, True)
    tls = client_context({**secured.trust(), **dotted}, NOW) if has_tls else None
    return Outbound(tls, None if login is None else client_login(*login))


def talk(how: Outbound, run: Callable[[SocketNetwork], Awaitable[None]]) -> None:
    """Run a coroutine with a network of its own."""

    async def inner() -> None:
        network = SocketNetwork(asyncio.get_running_loop(), how)
        try:
            async with asyncio.timeout(30):
                await run(network)
        finally:
            network.close()

    asyncio.run(inner())


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", ["PLAIN", *MECHANISMS])
def test_records_go_there_and_back(mechanism: str, listener: str, secured: Secured) -> None:
    """The records have more bytes than a TLS record or a socket's buffer."""
    topic = secured.node.run(lambda: secured.node.node.broker.image.topics["t"].id)
    batch = bytes(write_batch([(None, bytes(100_000)) for _ in range(9)], 1))

    async def run(network: SocketNetwork) -> None:
        channel = network.channel("127.0.0.1", secured.port(listener), "test")
        fields = {"acks": -1, "timeout": 5000, "transactional_id": None}
        data = [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]
        made = await channel.call("produce", 9, timeout_s=5, **fields, topic_data=data)
        offset = made.responses[0].partition_responses[0].base_offset
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 8 << 20}
        topics = [{"topic_id": topic, "partitions": [partition]}]
        asked = [channel.call("fetch", 17, timeout_s=5, max_wait=100, min_bytes=1, topics=topics) for _ in range(5)]
        for found in await asyncio.gather(*asked):
            assert found.responses[0].partitions[0].error_code == ErrorCode.NONE
            assert len(found.responses[0].partitions[0].records) == len(batch)
        assert principals(secured, listener) == {"User:alice"}

    talk(outbound(secured, listener, (mechanism, "alice", "secret" if mechanism == "PLAIN" else "pw")), run)


def test_a_certificate_is_shown(secured: Secured) -> None:
    keys = {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(secured.folder / "alice.pem")}

    async def run(network: SocketNetwork) -> None:
        await network.channel("127.0.0.1", secured.port("SSL"), "test").call("metadata", 12, timeout_s=5, topics=[])
        assert principals(secured, "SSL") == {"User:alice"}

    talk(outbound(secured, "SSL", None, **keys), run)


REFUSED: dict[str, tuple[str, tuple[str, str, str] | None, str]] = {
    "a wrong password": (
        "SASL_SSL",
        ("PLAIN", "alice", "wrong"),
        "SASL PLAIN: Authentication failed: Invalid username or password",
    ),
    "a wrong password of SCRAM": (
        "SASL",
        ("SCRAM-SHA-512", "alice", "wrong"),
        f"SASL SCRAM-SHA-512: {generic_failure('SCRAM-SHA-512')}",
    ),
    "no certificate": ("SSL", None, "TLS: the peer asks for a certificate, and ssl.keystore has none"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_one_line_and_not_repeated_at_once(
    name: str, secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """Three channels lead to one address, and their callers repeat their requests."""
    listener, login, reason = REFUSED[name]
    port = secured.port(listener)
    attempts = 0

    async def run(network: SocketNetwork) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + 1.0
        connect = loop.sock_connect

        async def counted(*where: Any) -> None:
            nonlocal attempts
            attempts += 1
            await connect(*where)

        loop.sock_connect = counted  # type: ignore[assignment,method-assign]

        async def ask(channel: Any) -> None:
            while loop.time() < until:
                with pytest.raises(LoginFailed):
                    await channel.call("metadata", 12, timeout_s=5, topics=[])

        await asyncio.gather(*(ask(network.channel("127.0.0.1", port, "test")) for _ in range(3)))

    talk(outbound(secured, listener, login), run)
    lines = [each.getMessage() for each in caplog.records if "log in" in each.getMessage()]
    assert lines == [f"this node cannot log in to the one at 127.0.0.1:{port}: {reason}"]
    assert 3 <= attempts <= 3 * 6, "after 0.1, 0.2, 0.4, 0.8 seconds"


def test_an_authority_that_is_not_trusted(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_bytes(make_authority("another", NOW).certificate_pem)
    how = outbound(
        secured, "SASL_SSL", ("PLAIN", "alice", "secret"), ssl_truststore_location=str(tmp_path / "other.pem")
    )
    refused(how, secured.port("SASL_SSL"), "TLS: the peer's certificate is not accepted: ")


def test_a_certificate_of_another_host(secured: Secured) -> None:
    """127.1 is the address 127.0.0.1, but the certificate has no such name."""
    login = ("PLAIN", "alice", "secret")
    reason = "TLS: the peer's certificate is not accepted: Hostname mismatch"
    refused(outbound(secured, "SASL_SSL", login), secured.port("SASL_SSL"), reason, host="127.1")

    async def run(network: SocketNetwork) -> None:
        await network.channel("127.1", secured.port("SASL_SSL"), "test").call("metadata", 12, timeout_s=5, topics=[])

    talk(outbound(secured, "SASL_SSL", login, ssl_endpoint_identification_algorithm=""), run)


def refused(how: Outbound, port: int, reason: str, host: str = "127.0.0.1") -> None:
    async def run(network: SocketNetwork) -> None:
        with pytest.raises(LoginFailed) as failed:
            await network.channel(host, port, "test").call("metadata", 12, timeout_s=5, topics=[])
        assert str(failed.value).startswith(f"{host}:{port}: {reason}")

    talk(how, run)
