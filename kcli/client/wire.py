"""What librdkafka does not ask: finalized features (ApiVersions), the quorum of controllers (DescribeQuorum), epochs
of a consumer group (ConsumerGroupDescribe), to forget single offsets of a group (OffsetDelete), and all about
transactions (transaction_wire).

One question at a time, over a connection of its own, secured as librdkafka's are (see security).

    request    int32 size, api key int16, version int16, correlation id int32, client id, tagged fields, request
    response   int32 size, correlation id int32, tagged fields (not in ApiVersions), response

Only flexible versions have tagged fields. Source: RequestHeader.json, ResponseHeader.json; KIP-496, KIP-511, KIP-584,
KIP-595; SASL: KIP-43, KIP-152.
"""

from __future__ import annotations

import io
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import groupby
from typing import Any, NamedTuple

from kcli.kio_serial import SerialError, entity_reader, entity_writer

# isort: split
from kio.schema.api_versions import v3, v4
from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.describe_quorum.v0.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.describe_quorum.v0.response import DescribeQuorumResponse, ReplicaState
from kio.schema.errors import ErrorCode
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

from kcli.client.security import PLAIN_TEXT, NotTrusted, Sasl, Security
from kcli.group_view import Place

MAX_RESPONSE_BYTES = 16 << 20
CLIENT_ID = b"kcli"
HEADER = struct.Struct(">ihhih4s")  # size, api key, version, correlation id, client id
NO_TAGGED_FIELDS = b"\0"
API_VERSIONS = v4.request.ApiVersionsRequest.__api_key__
METADATA_TOPIC = TopicName("__cluster_metadata")


class NoAnswer(Exception):
    """The broker did not take the question, or its answer is none."""


class Server(NamedTuple):
    """Where a broker is, how long to wait for an answer, and how connections to it are secured."""

    host: str
    port: int
    timeout_s: float
    security: Security = PLAIN_TEXT


class Feature(NamedTuple):
    """A feature that is finalized, and what the broker supports (0 and 0: it does not say)."""

    name: str
    level: int
    supported_min: int
    supported_max: int


class Replica(NamedTuple):
    """A node's copy of the metadata log. log_end_offset: None where the leader does not know it."""

    node: int
    log_end_offset: int | None


class Quorum(NamedTuple):
    """The controllers, as their leader sees them; observers are the brokers."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[Replica, ...]
    observers: tuple[Replica, ...]


class GroupEpochs(NamedTuple):
    """A consumer group's state, how often it has changed, when its target assignment was made, and where each member
    is."""

    state: str
    group: int
    assignment: int
    members: dict[str, int]


class Details(NamedTuple):
    """What a broker tells of the cluster beyond its description. None: it does not tell."""

    features: tuple[Feature, ...] | None
    quorum: Quorum | None


def ask(server: Server) -> Details:
    """The details, as far as the broker gives them."""
    try:
        with _connected(server) as connection:
            features, quorum_known = _features(connection)
            return Details(features, _quorum(connection) if quorum_known else None)
    except (OSError, NoAnswer):
        return Details(None, None)


def _features(connection: socket.socket) -> tuple[tuple[Feature, ...], bool]:
    """The finalized features, and whether DescribeQuorum is among the APIs."""
    named = {"client_software_name": "kcli", "client_software_version": "0"}
    try:  # before version 4, what may be 0 is not told
        answer = _asked(connection, v4.request.ApiVersionsRequest(**named), v4.response.ApiVersionsResponse)
    except NoAnswer:
        answer = _asked(connection, v3.request.ApiVersionsRequest(**named), v3.response.ApiVersionsResponse)
    supported = {feature.name: feature for feature in answer.supported_features}
    features = []
    for each in answer.finalized_features:
        known = supported.get(each.name)
        limits = (known.min_version, known.max_version) if known is not None else (0, 0)
        features.append(Feature(each.name, each.max_version_level, *limits))
    known_keys = {each.api_key for each in answer.api_keys}
    return tuple(sorted(features)), DescribeQuorumRequest.__api_key__ in known_keys


def _quorum(connection: socket.socket) -> Quorum | None:
    partition = PartitionData(partition_index=i32(0))
    request = DescribeQuorumRequest(topics=(TopicData(topic_name=METADATA_TOPIC, partitions=(partition,)),))
    try:
        answer = _asked(connection, request, DescribeQuorumResponse)
    except NoAnswer:
        return None
    told = [each for topic in answer.topics for each in topic.partitions if each.error_code is ErrorCode.none]
    if not told:
        return None
    first = told[0]
    voters, observers = (tuple(sorted(map(_replica, each))) for each in (first.current_voters, first.observers))
    return Quorum(first.leader_id, first.leader_epoch, first.high_watermark, voters, observers)


def _replica(state: ReplicaState) -> Replica:
    return Replica(state.replica_id, state.log_end_offset if state.log_end_offset >= 0 else None)


def delete_offsets(server: Server, group: str, places: Iterable[Place]) -> tuple[ErrorCode, dict[Place, ErrorCode]]:
    """Make a group's coordinator forget offsets. What it says of the group, and of each partition. Raises NoAnswer,
    OSError."""
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=TopicName(topic),
            partitions=tuple(OffsetDeleteRequestPartition(partition_index=i32(number)) for _, number in of_topic),
        )
        for topic, of_topic in groupby(sorted(places), key=lambda place: place[0])
    )
    request = OffsetDeleteRequest(group_id=GroupId(group), topics=topics)
    answer = asked(server, request, OffsetDeleteResponse)
    return answer.error_code, {
        (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
    }


def group_epochs(server: Server, group: str) -> GroupEpochs | None:
    """State and epochs of a consumer group, as its coordinator tells them; None where it refuses. Raises NoAnswer,
    OSError."""
    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group),), include_authorized_operations=False)
    (found,) = asked(server, request, ConsumerGroupDescribeResponse).groups
    if found.error_code is not ErrorCode.none:
        return None
    members = {each.member_id: each.member_epoch for each in found.members}
    return GroupEpochs(found.group_state, found.group_epoch, found.assignment_epoch, members)


def asked(server: Server, request: Any, response_type: type[Any]) -> Any:
    """The answer to one request. Raises NoAnswer, OSError."""
    with _connected(server) as connection:
        return _parsed(_exchanged(connection, request), response_type)


@contextmanager
def _connected(server: Server) -> Iterator[socket.socket]:
    tls, sasl = server.security.tls, server.security.sasl
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((server.host, server.port), server.timeout_s))
        if tls is not None:
            connection = stack.enter_context(tls.wrap_socket(connection, server_hostname=server.host))
        if sasl is not None:
            _authenticate(connection, sasl)
        yield connection


def _authenticate(connection: socket.socket, sasl: Sasl) -> None:
    handshake = SaslHandshakeRequest(mechanism=sasl.mechanism)
    agreed = _parsed(_exchanged(connection, handshake), SaslHandshakeResponse)
    if agreed.error_code is not ErrorCode.none:
        raise NoAnswer(f"SASL mechanism {sasl.mechanism}: the broker has {', '.join(agreed.mechanisms) or 'none'}")
    conversation = sasl.begin()
    said: bytes | None = None
    while True:
        try:
            next_said = next(conversation) if said is None else conversation.send(said)
        except StopIteration:
            return
        except NotTrusted as error:
            raise NoAnswer(str(error)) from None
        answer = _parsed(
            _exchanged(connection, SaslAuthenticateRequest(auth_bytes=next_said)), SaslAuthenticateResponse
        )
        if answer.error_code is not ErrorCode.none:
            raise NoAnswer(f"SASL: {answer.error_message or answer.error_code.name}")
        said = answer.auth_bytes


def _asked(connection: socket.socket, request: Any, response_type: type[Any]) -> Any:
    """One answer of its type, which begins with an error code: that is none. Raises NoAnswer, OSError."""
    data = _exchanged(connection, request)
    position = _header_size(response_type)
    if bytes(data[position : position + 2]) != b"\0\0":
        raise NoAnswer("an error")
    return _parsed(data, response_type)


def _exchanged(connection: socket.socket, request: Any) -> memoryview:
    """The answer to a request, with its header. Raises NoAnswer, OSError."""
    body = io.BytesIO()
    if request.__flexible__:
        body.write(NO_TAGGED_FIELDS)
    entity_writer(type(request))(body, request)
    size = HEADER.size - 4 + len(body.getvalue())
    header = HEADER.pack(size, request.__api_key__, request.__version__, 0, len(CLIENT_ID), CLIENT_ID)
    connection.sendall(header + body.getvalue())
    size = int.from_bytes(_read(connection, 4), signed=True)
    if not 4 <= size <= MAX_RESPONSE_BYTES:
        raise NoAnswer(f"a response of {size} bytes")
    return memoryview(_read(connection, size))


def _header_size(response_type: type[Any]) -> int:
    has_tagged_fields = response_type.__flexible__ and response_type.__api_key__ != API_VERSIONS
    return 5 if has_tagged_fields else 4


def _parsed(data: memoryview, response_type: type[Any]) -> Any:
    position = _header_size(response_type)
    try:
        return entity_reader(response_type)(data, position)[0]
    except (SerialError, ValueError, OverflowError, TypeError) as error:
        raise NoAnswer(str(error)) from error


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise NoAnswer("the connection was closed")
        data += part
    return bytes(data)
