"""Spark's errors in one sentence."""

import socket

import pytest
from py4j.clientserver import ClientServer, JavaParameters
from py4j.protocol import Py4JError, Py4JNetworkError, get_return_value

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


def test_a_jvm_that_ends_during_a_call() -> None:
    """py4j has no more than the name of what was called then; with a trace the JVM has answered."""
    with pytest.raises(Py4JError) as raised:
        get_return_value("x", None, "o7", "awaitTermination")
    assert cause(raised.value) == JVM_ENDED
    assert cause(Py4JError("An error occurred while calling o7.start. Trace:\njava.lang.Error: broken\n")) == "broken"
