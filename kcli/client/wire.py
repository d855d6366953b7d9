"""Requests that librdkafka's API lacks: finalized features (ApiVersions), the quorum of controllers (DescribeQuorum), a
consumer group's epochs (ConsumerGroupDescribe), OffsetDelete; transaction_wire adds those about transactions.

Each function opens a connection of its own, secured by librdkafka's properties (see security), and has one request in
flight.

    request    int32 size, api key int16, version int16, correlation id int32, client id, tagged fields, request
    response   int32 size, correlation id int32, tagged fields (not in ApiVersions), response

Only flexible versions have tagged fields. Source: RequestHeader.json, ResponseHeader.json; KIP-496, KIP-511, KIP-584,
KIP-595; SASL: KIP-43, KIP-152.
"""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from kcli.protocol.error_code import ErrorCode
from kcli.protocol.kio_serial import SerialError, entity_reader, entity_writer

# isort: split
from kio.schema.api_versions import v3, v4
from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse, ReplicaState
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.sasl_authenticate.v1.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v1.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32

from kcli.client.security import CLOSED, PLAIN_TEXT, Security
from kcli.errors import KcliError
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.sasl import NotTrusted

if TYPE_CHECKING:
    from types import TracebackType

    from kcli.security.client_login import ClientLogin

MAX_RESPONSE_BYTES = 16 << 20
CLIENT_ID = "kcli"
HEADER = struct.Struct(">ihhih")  # size, api key, version, correlation id, size of the client id that follows
NO_TAGGED_FIELDS = b"\0"
API_VERSIONS = v4.request.ApiVersionsRequest.__api_key__
METADATA_TOPIC = TopicName("__cluster_metadata")
DEFAULT_PORT = 9092
LISTED_TRIED = 3
"""How many of the brokers that are no bootstrap servers are tried for a request."""

T = TypeVar("T")


class NoAnswer(Exception):
    """The broker refused the request, or its response is malformed."""


class LoginFailed(NoAnswer):
    """The broker refused the SASL mechanism or the credentials."""


class Hangup(NoAnswer):
    """The broker closed the connection, or the other side does not speak Kafka's protocol."""


class NobodyAnswers(KcliError):
    """No known broker answers. error: the error of the last broker tried; reason: the text of that error."""

    def __init__(self, bootstrap: str, error: Exception) -> None:
        self.error, self.reason = error, failure_reason(error)
        what = "the login failed" if isinstance(error, LoginFailed) else "no broker answers"
        super().__init__(f"{bootstrap}: {what} ({self.reason})")


class ErrorAnswer(KcliError):
    """A broker has answered with an error. The message has the subject of the request (such as a group), Kafka's name
    of the error, and the broker's text, if it sent one."""

    def __init__(self, subject: str, code: int, text: str | None) -> None:
        self.code = ErrorCode(code)
        super().__init__(": ".join(each for each in (subject, self.code.name, text) if each))


class Server(NamedTuple):
    """A broker's host and port, the time-out of a response in seconds, the security of connections to it, and the
    client id of requests."""

    host: str
    port: int
    timeout_s: float
    security: Security = PLAIN_TEXT
    client_id: str = CLIENT_ID


class AnyBroker:
    """Sends requests to one of several brokers: to a bootstrap server, first to the one that answered last; where none
    answers, to up to LISTED_TRIED of the brokers that the cluster has listed (`learn`)."""

    def __init__(self, bootstrap: str, timeout_s: float, security: Security, client_id: str = CLIENT_ID) -> None:
        """bootstrap: HOST:PORT,... of the brokers; timeout_s: how long to wait for a response, in seconds."""
        self.timeout_s = timeout_s
        self._security, self._client_id = security, client_id
        self._bootstrap = bootstrap
        self._servers = [self.server(host, port) for host, port in _addresses(bootstrap)]
        self._listed: list[Server] = []

    def learn(self, servers: Iterable[Server]) -> None:
        """Know the brokers of the cluster, which may answer where the bootstrap servers have gone."""
        new = {each for each in servers if each not in self._servers}
        known = [each for each in self._listed if each in new]
        self._listed = [*known, *new.difference(known)]

    def server(self, host: str, port: int) -> Server:
        """Return a broker of the same cluster, with the security and the time-out of these brokers."""
        return Server(host, port, self.timeout_s, self._security, self._client_id)

    def ask(self, send: Callable[[Server], T]) -> T:
        """Call `send` with one broker after the other; return its result for the first broker that answers. send: sends
        a request to a Server; OSError and NoAnswer mean that the broker does not answer. Raises NobodyAnswers."""
        failure: Exception = NoAnswer("no address")
        for server in tuple(self._servers):
            try:
                answer = send(server)
            except (OSError, NoAnswer) as error:
                failure = error
                continue
            self._servers.remove(server)
            self._servers.insert(0, server)
            return answer
        for server in tuple(self._listed[:LISTED_TRIED]):
            with suppress(OSError, NoAnswer):
                return send(server)
            self._listed.remove(server)
            self._listed.append(server)
        raise NobodyAnswers(self._bootstrap, failure)


def _addresses(bootstrap: str) -> Iterator[tuple[str, int]]:
    for each in bootstrap.split(","):
        host, _, port = each.strip().rpartition(":")
        if port.isascii() and port.isdecimal():
            yield host.strip("[]") or "127.0.0.1", int(port)
        elif each.strip():
            yield each.strip(), DEFAULT_PORT


class Feature(NamedTuple):
    """A finalized feature's level, and the range of levels that the broker supports (0 and 0 if ApiVersions does not
    list the feature as supported)."""

    name: str
    level: int
    supported_min: int
    supported_max: int


class Replica(NamedTuple):
    """A replica of the metadata log. log_end_offset: None if the leader does not know it."""

    node: int
    log_end_offset: int | None


class Quorum(NamedTuple):
    """The quorum as its leader describes it; brokers that are no voters are observers."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]


class GroupEpochs(NamedTuple):
    """A consumer group's state, its group epoch, the epoch of its target assignment, and each member's epoch
    (KIP-848)."""

    state: str
    group: int
    assignment: int
    members: dict[str, int]


class Details(NamedTuple):
    """A cluster's finalized features and quorum; each is None if the broker did not return it."""

    features: tuple[Feature, ...] | None
    quorum: Quorum | None


def details(server: Server) -> Details:
    """Return the features and the quorum, each None if the broker does not return it."""
    features = None
    try:
        with _connected(server) as connection:
            features, quorum_known = _features(connection)
            return Details(features, _quorum(connection) if quorum_known else None)
    except (OSError, NoAnswer):
        return Details(features, None)


def quorum(server: Server) -> Quorum | None:
    """Return the quorum; None if the broker does not have the API DescribeQuorum. Raises OSError, and NoAnswer (with
    the error's name if the broker answers with an error code)."""
    with _connected(server) as connection:
        _, quorum_known = _features(connection)
        return _quorum(connection) if quorum_known else None


def failure_reason(error: Exception) -> str:
    """Return the reason why a broker did not answer, in one line. error: an OSError or NoAnswer."""
    if not isinstance(error, OSError):
        return str(error)
    from kcli.tls.failures import failure_text

    return failure_text(error)


def _features(connection: socket.socket) -> tuple[tuple[Feature, ...], bool]:
    """Return the finalized features, and whether the broker has the API DescribeQuorum."""
    named = {"client_software_name": "kcli", "client_software_version": "0"}
    try:  # versions before 4 leave out features with a minimum of 0
        answer = _call(connection, v4.request.ApiVersionsRequest(**named), v4.response.ApiVersionsResponse)
    except NoAnswer:
        answer = _call(connection, v3.request.ApiVersionsRequest(**named), v3.response.ApiVersionsResponse)
    supported = {feature.name: feature for feature in answer.supported_features}
    features = []
    for each in answer.finalized_features:
        known = supported.get(each.name)
        limits = (known.min_version, known.max_version) if known is not None else (0, 0)
        features.append(Feature(each.name, each.max_version_level, *limits))
    known_keys = {each.api_key for each in answer.api_keys}
    return tuple(sorted(features)), DescribeQuorumRequest.__api_key__ in known_keys


def _quorum(connection: socket.socket) -> Quorum:
    partition = PartitionData(partition_index=i32(0))
    request = DescribeQuorumRequest(topics=(TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),))
    answer = _parsed(_exchange(connection, request), DescribeQuorumResponse)
    partitions = [each for topic in answer.topics for each in topic.partitions]
    for each in (answer, *partitions):
        if each.error_code != ErrorCode.NONE:
            raise NoAnswer(f"DescribeQuorum: {ErrorCode(each.error_code).name}")
    if not partitions:
        raise NoAnswer("DescribeQuorum: no partition")
    first = partitions[0]
    voters, observers = (tuple(sorted(map(_replica, each))) for each in (first.current_voters, first.observers))
    return Quorum(first.leader_id, first.leader_epoch, first.high_watermark, voters, observers)


def _replica(state: ReplicaState) -> Replica:
    return Replica(state.replica_id, state.log_end_offset if state.log_end_offset >= 0 else None)


def delete_offsets(
    server: Server, group: str, places: Iterable[TopicPartition]
) -> tuple[ErrorCode, dict[TopicPartition, ErrorCode]]:
    """Delete committed offsets of a group. server: the group's coordinator. Return the error code of the whole request,
    and the error code of each partition. Raises NoAnswer, OSError."""
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=TopicName(topic),
            partitions=tuple(OffsetDeleteRequestPartition(partition_index=i32(number)) for _, number in of_topic),
        )
        for topic, of_topic in groupby(sorted(places), key=lambda place: place.topic)
    )
    request = OffsetDeleteRequest(group_id=GroupId(group), topics=topics)
    answer = call(server, request, OffsetDeleteResponse)
    return ErrorCode(answer.error_code), {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


def group_epochs(server: Server, group: str) -> GroupEpochs | None:
    """Return the state and the epochs of a consumer group. server: the group's coordinator. Return None if the
    coordinator answers with an error. Raises NoAnswer, OSError."""
    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=False)
    (found,) = call(server, request, ConsumerGroupDescribeResponse).groups
    if found.error_code != ErrorCode.NONE:
        return None
    members = {each.member_id: each.member_epoch for each in found.members}
    return GroupEpochs(found.group_state, found.group_epoch, found.assignment_epoch, members)


def call(server: Server, request: Any, response_type: type[Any]) -> Any:
    """Send one request over a new connection, and return the response. Raises NoAnswer, OSError."""
    with Channel(server) as channel:
        return channel.call(request, response_type)


class Channel:
    """A connection to one broker for many requests, one in flight at a time; a context manager."""

    def __init__(self, server: Server, response_bytes_max: int = MAX_RESPONSE_BYTES) -> None:
        """response_bytes_max: the maximum size of a response, in bytes. Raises NoAnswer, OSError."""
        self._stack = ExitStack()
        self._connection = self._stack.enter_context(_connected(server))
        self._response_bytes_max, self._client_id = response_bytes_max, server.client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)  # this adds to a Hangup why the broker may have closed

    def call(self, request: Any, response_type: type[Any]) -> Any:
        """Send a request and return its response. Raises NoAnswer, OSError: the connection must not be used after
        that."""
        data = _exchange(self._connection, request, self._response_bytes_max, self._client_id)
        return _parsed(data, response_type)

    def close(self) -> None:
        self._stack.close()


@contextmanager
def _connected(server: Server) -> Iterator[socket.socket]:
    tls, sasl = server.security.tls, server.security.sasl
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((server.host, server.port), server.timeout_s))
        if tls is not None:
            connection = stack.enter_context(tls.wrap_socket(connection, server_hostname=server.host))
        is_let_in = tls is not None
        try:
            if sasl is not None:
                _authenticate(connection, sasl)
                is_let_in = True
            yield connection
        except (Hangup, ConnectionError) as error:
            if is_let_in:
                raise
            raise Hangup(f"{failure_reason(error)}; {CLOSED}") from None


def _authenticate(connection: socket.socket, sasl: ClientLogin) -> None:
    handshake = SaslHandshakeRequest(mechanism=sasl.mechanism)
    agreed = _parsed(_exchange(connection, handshake), SaslHandshakeResponse)
    if agreed.error_code != ErrorCode.NONE:
        raise LoginFailed(f"SASL mechanism {sasl.mechanism}: the broker has {', '.join(agreed.mechanisms) or 'none'}")
    conversation = sasl.begin()
    server_message: bytes | None = None
    while True:
        try:
            message = next(conversation) if server_message is None else conversation.send(server_message)
        except StopIteration:
            return
        except NotTrusted as error:
            raise LoginFailed(str(error)) from None
        answer = _parsed(_exchange(connection, SaslAuthenticateRequest(auth_bytes=message)), SaslAuthenticateResponse)
        if answer.error_code != ErrorCode.NONE:
            raise LoginFailed(f"SASL: {answer.error_message or ErrorCode(answer.error_code).name}")
        server_message = answer.auth_bytes


def _call(connection: socket.socket, request: Any, response_type: type[Any]) -> Any:
    """Send a request over an open connection, and return the response. Raises NoAnswer if the response's error code
    is not 0; OSError."""
    data = _exchange(connection, request)
    position = _header_size(response_type)
    if bytes(data[position : position + 2]) != b"\0\0":
        raise NoAnswer("an error")
    return _parsed(data, response_type)


def _exchange(
    connection: socket.socket,
    request: Any,
    response_bytes_max: int = MAX_RESPONSE_BYTES,
    client_id: str = CLIENT_ID,
) -> memoryview:
    """Send a request and read its response, header included. Raises NoAnswer, OSError."""
    name = client_id.encode()
    body = io.BytesIO(name)
    body.seek(len(name))
    if request.__flexible__:
        body.write(NO_TAGGED_FIELDS)
    entity_writer(type(request))(body, request)
    size = HEADER.size - 4 + len(body.getvalue())
    header = HEADER.pack(size, request.__api_key__, request.__version__, 0, len(name))
    connection.sendall(header + body.getvalue())
    size = int.from_bytes(_read(connection, 4), signed=True)
    if not 4 <= size <= response_bytes_max:
        raise Hangup(f"a response of {size} bytes")
    return memoryview(_read(connection, size)).toreadonly()


def _header_size(response_type: type[Any]) -> int:
    has_tagged_fields = response_type.__flexible__ and response_type.__api_key__ != API_VERSIONS
    return 5 if has_tagged_fields else 4


def _parsed(data: memoryview, response_type: type[Any]) -> Any:
    position = _header_size(response_type)
    try:
        return entity_reader(response_type)(data, position)[0]
    except (SerialError, ValueError, OverflowError, TypeError) as error:
        raise NoAnswer(str(error)) from error


def _read(connection: socket.socket, size: int) -> bytearray:
    data, done = bytearray(size), 0
    view = memoryview(data)
    while done < size:
        got = connection.recv_into(view[done:])
        if not got:
            raise Hangup("the connection was closed")
        done += got
    return data
