"""Spark's errors in one sentence."""

import socket

import pytest
from py4j.clientserver import ClientServer, JavaParameters
from py4j.protocol import Py4JNetworkError

from kcli.export.session import JVM_ENDED, cause


def test_a_jvm_that_has_ended() -> None:
    """py4j raises an error of its own, or that of the socket; another socket's is none of Spark's."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    gateway = ClientServer(JavaParameters(port=port))
    with pytest.raises(ConnectionRefusedError) as raised:
        gateway.jvm.java.lang.System.nanoTime()
    assert cause(raised.value) == cause(Py4JNetworkError("gone")) == JVM_ENDED
    with pytest.raises(ConnectionRefusedError) as raised:
        socket.create_connection(("127.0.0.1", port))
    assert cause(raised.value) is None
    gateway.shutdown()
