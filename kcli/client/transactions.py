"""Transactions of a cluster, from their coordinators and from partition leaders; aborts of hanging transactions.

librdkafka has no API to list, describe or abort other clients' transactions: it supplies the brokers and the leaders
of partitions, and `wire` sends the requests. Requests to a coordinator that is moving or still loading are retried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from confluent_kafka import KafkaError

from kcli.client import transaction_wire
from kcli.client.connection import Connection, Refused
from kcli.client.wire import NoAnswer, Server, failure_reason
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.transactions import Listing, NoSuchTransactionalId, Producer, Transaction, TransactionFilter

PASSING = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
RETRY_S = 0.1
TOGETHER = 500
"""The maximum number of partitions in one request."""

T = TypeVar("T")
P = ParamSpec("P")


class Transactions:
    """Transactions of a cluster. The cluster's topics are read once, at construction. Methods that take several
    transactional ids, or partitions, yield a KcliError in place of each one that failed.

    trouble: always empty. kcli.inspector.transactions has the same interface, and lists in its `trouble` the parts of a
    log directory that cannot be read.
    """

    trouble: Sequence[str | KcliError] = ()

    def __init__(self, connection: Connection) -> None:
        """Read the cluster's brokers and topics. Raises UsageError, Unreachable; KcliError if the cluster requires TLS
        or SASL that `wire` does not support."""
        self._timeout_s = connection.timeout_s
        self._security = connection.security()
        metadata = connection.metadata(connection.admin())
        self._servers = {each.id: self._at(str(each.host), int(each.port)) for each in metadata.brokers.values()}
        self._topics = metadata.topics

    def _at(self, host: str, port: int) -> Server:
        return Server(host, port, self._timeout_s, self._security)

    def unserved(self) -> Sequence[str]:
        """Return nothing: a cluster lists only what it finds."""
        return ()

    def all(self, selection: TransactionFilter) -> Iterator[Listing | KcliError]:
        """Yield all transactional ids, sorted by name, and a KcliError for each broker that fails to list the ids that
        it coordinates. selection: which ids to list."""
        listed: list[Listing] = []
        failed: list[KcliError] = []
        for broker, server in sorted(self._servers.items()):
            try:
                error, found = self._listed(broker, server, selection)
            except KcliError as failure:
                failed.append(failure)
                continue
            listed += found
            if error != ErrorCode.NONE:
                failed.append(_refused(f"broker {broker}", error))
        yield from sorted(listed)
        yield from failed

    def _listed(self, broker: int, server: Server, selection: TransactionFilter) -> tuple[ErrorCode, list[Listing]]:
        deadline = time.monotonic() + self._timeout_s
        while True:
            error, found = _send(transaction_wire.list_transactions, server, broker, selection)
            if error not in PASSING or time.monotonic() >= deadline:
                return error, found
            time.sleep(RETRY_S)

    def describe(self, transactional_ids: Iterable[str]) -> Iterator[Transaction | KcliError]:
        """Yield each transactional id's state, in the order given, or a KcliError."""
        names = list(transactional_ids)
        found: dict[str, Transaction | KcliError] = {}
        deadline = time.monotonic() + self._timeout_s
        while left := [each for each in dict.fromkeys(names) if each not in found]:
            outcomes = dict(self._described(left))
            is_late = time.monotonic() >= deadline
            for name in left:
                outcome = outcomes.get(name, ErrorCode.COORDINATOR_NOT_AVAILABLE)
                if not isinstance(outcome, ErrorCode):
                    found[name] = outcome
                elif outcome == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    found[name] = NoSuchTransactionalId(name)
                elif outcome not in PASSING or is_late:
                    found[name] = _refused(name, outcome)
            if any(name not in found for name in left):
                time.sleep(RETRY_S)
        for name in names:
            yield found[name]

    def _described(self, names: list[str]) -> Iterator[tuple[str, Transaction | KcliError | ErrorCode]]:
        """Yield each transactional id with its present state, or with the error that its coordinator or the connection
        returned."""
        by_server: dict[tuple[int, Server], list[str]] = {}
        for name, each in self._coordinators(names).items():
            if each.error != ErrorCode.NONE:
                yield name, each.error
            else:
                server = self._at(each.host, each.port)
                by_server.setdefault((each.broker, server), []).append(name)
        for (broker, server), of_server in by_server.items():
            try:
                described = _send(transaction_wire.describe_transactions, server, broker, of_server)
            except KcliError as failure:
                yield from ((name, failure) for name in of_server)
                continue
            for error, transaction in described:
                yield transaction.transactional_id, transaction if error == ErrorCode.NONE else error

    def _coordinators(self, names: list[str]) -> dict[str, transaction_wire.Coordinator]:
        """Return the coordinator of each transactional id, from the first broker that answers. Raises KcliError if no
        broker answers."""
        failure = KcliError("the cluster has no broker that answers")
        for _, server in sorted(self._servers.items()):
            try:
                return _send(transaction_wire.find_coordinators, server, names)
            except KcliError as error:
                failure = error
        raise failure

    def places(self, topic: str | None, broker: int | None) -> list[TopicPartition]:
        """Return the partitions of a topic, or of all topics if `topic` is None; with `broker` only those with a
        replica on that broker. Raises KcliError."""
        if broker is not None:
            self._server(broker)
        if topic is not None and (topic not in self._topics or self._topics[topic].error is not None):
            raise _refused(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return sorted(
            TopicPartition(name, number)
            for name in (self._topics if topic is None else [topic])
            for number, each in self._topics[name].partitions.items()
            if broker is None or broker in each.replicas
        )

    def producers(
        self, places: Iterable[TopicPartition], broker: int | None
    ) -> Iterator[tuple[TopicPartition, list[Producer]] | KcliError]:
        """Yield each partition with its active producers, or a KcliError in place of a partition that failed. broker:
        the id of the broker that is asked; None to ask each partition's leader. If a request fails as a whole, one
        KcliError stands for all its partitions."""
        by_server: dict[Server, list[TopicPartition]] = {}
        for place in places:
            try:
                server = self._leader(place) if broker is None else self._server(broker)
                by_server.setdefault(server, []).append(place)
            except KcliError as failure:
                yield failure
        for server, of_server in by_server.items():
            for begin in range(0, len(of_server), TOGETHER):
                part = of_server[begin : begin + TOGETHER]
                try:
                    described = _send(transaction_wire.describe_producers, server, part)
                except KcliError as failure:
                    yield failure
                    continue
                for (topic, number), error, found in described:
                    yield (
                        (TopicPartition(topic, number), found)
                        if error == ErrorCode.NONE
                        else _refused(f"{topic}-{number}", error)
                    )

    def abort(self, place: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        """Let the partition's leader abort a producer's transaction in that partition. Raises KcliError."""
        marker = place, producer_id, producer_epoch, coordinator_epoch
        error = _send(transaction_wire.abort, self._leader(place), *marker)
        if error != ErrorCode.NONE:
            raise _refused(str(place), error)

    def fence(self, transactional_id: str) -> None:
        """Let the coordinator of a transactional id abort its open transaction and fence its producer. Raises
        KcliError."""
        deadline = time.monotonic() + self._timeout_s
        while (error := self._fenced(transactional_id)) in PASSING and time.monotonic() < deadline:
            time.sleep(RETRY_S)
        if error != ErrorCode.NONE:
            raise _refused(transactional_id, error)

    def _fenced(self, transactional_id: str) -> ErrorCode:
        found = self._coordinators([transactional_id]).get(transactional_id)
        if found is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if found.error != ErrorCode.NONE:
            return found.error
        return _send(transaction_wire.fence, self._at(found.host, found.port), transactional_id)

    def _leader(self, place: TopicPartition) -> Server:
        topic, number = place
        found = self._topics[topic].partitions.get(number) if topic in self._topics else None
        if found is None:
            raise _refused(f"{topic}-{number}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if found.leader not in self._servers:
            raise _refused(f"{topic}-{number}", ErrorCode.LEADER_NOT_AVAILABLE)
        return self._servers[found.leader]

    def _server(self, broker: int) -> Server:
        if broker not in self._servers:
            raise KcliError(f"there is no broker {broker}")
        return self._servers[broker]


def _send(send: Callable[Concatenate[Server, P], T], server: Server, *args: P.args, **named: P.kwargs) -> T:
    try:
        return send(server, *args, **named)
    except (OSError, NoAnswer) as failure:
        raise KcliError(f"{server.host}:{server.port}: no answer: {failure_reason(failure)}") from None


def _refused(subject: str, error: ErrorCode) -> KcliError:
    return Refused(subject, KafkaError(error.value))
