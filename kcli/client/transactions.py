"""Transactions of a cluster: what coordinators and leaders know, and how one is aborted.

librdkafka has no face for it: it tells which brokers there are and who leads what, the rest is asked over connections
of our own (see wire). A coordinator that is just moving, or that has not loaded yet, is asked again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from confluent_kafka import KafkaError

from kcli.client import transaction_wire
from kcli.client.connection import Connection, Refused
from kcli.client.wire import NoAnswer, Server

# isort: split
from kio.schema.errors import ErrorCode

from kcli.errors import KcliError
from kcli.group_view import Place
from kcli.transaction_view import Listing, NoSuchTransactionalId, Producer, Transaction, Wanted

PASSING = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.concurrent_transactions,
)
RETRY_S = 0.1
TOGETHER = 500
"""Partitions in a request."""

T = TypeVar("T")
P = ParamSpec("P")


class Transactions:
    """See above; of topics it knows what there was at the beginning. What goes wrong with one of several is yielded.

    trouble: what is damaged or could not be read; what a broker tells is whole.
    """

    trouble: Sequence[str | KcliError] = ()

    def __init__(self, connection: Connection) -> None:
        """Raises UsageError, Unreachable; KcliError where the cluster wants TLS or SASL that is not spoken here."""
        self._timeout_s = connection.timeout_s
        self._security = connection.security()
        metadata = connection.metadata(connection.admin())
        self._servers = {each.id: self._at(str(each.host), int(each.port)) for each in metadata.brokers.values()}
        self._topics = metadata.topics

    def _at(self, host: str, port: int) -> Server:
        return Server(host, port, self._timeout_s, self._security)

    def all(self, wanted: Wanted) -> Iterator[Listing | KcliError]:
        """Transactional ids, by name, and brokers that do not tell theirs."""
        listed: list[Listing] = []
        failed: list[KcliError] = []
        for broker, server in sorted(self._servers.items()):
            try:
                error, found = self._listed(broker, server, wanted)
            except KcliError as failure:
                failed.append(failure)
                continue
            listed += found
            if error is not ErrorCode.none:
                failed.append(_refused(f"broker {broker}", error))
        yield from sorted(listed)
        yield from failed

    def _listed(self, broker: int, server: Server, wanted: Wanted) -> tuple[ErrorCode, list[Listing]]:
        deadline = time.monotonic() + self._timeout_s
        while True:
            error, found = _asked(transaction_wire.list_transactions, server, broker, wanted)
            if error not in PASSING or time.monotonic() >= deadline:
                return error, found
            time.sleep(RETRY_S)

    def describe(self, transactional_ids: Iterable[str]) -> Iterator[Transaction | KcliError]:
        """Transactional ids, in the order given, or why not."""
        asked = list(transactional_ids)
        found: dict[str, Transaction | KcliError] = {}
        deadline = time.monotonic() + self._timeout_s
        while left := [each for each in dict.fromkeys(asked) if each not in found]:
            outcomes = dict(self._described(left))
            is_late = time.monotonic() >= deadline
            for name in left:
                outcome = outcomes.get(name, ErrorCode.coordinator_not_available)
                if not isinstance(outcome, ErrorCode):
                    found[name] = outcome
                elif outcome is ErrorCode.transactional_id_not_found:
                    found[name] = NoSuchTransactionalId(name)
                elif outcome not in PASSING or is_late:
                    found[name] = _refused(name, outcome)
            if any(name not in found for name in left):
                time.sleep(RETRY_S)
        for name in asked:
            yield found[name]

    def _described(self, names: list[str]) -> Iterator[tuple[str, Transaction | KcliError | ErrorCode]]:
        """Each of them as its coordinator has it now, or what it or the way to it said."""
        by_server: dict[tuple[int, Server], list[str]] = {}
        for name, each in self._coordinators(names).items():
            if each.error is not ErrorCode.none:
                yield name, each.error
            else:
                server = self._at(each.host, each.port)
                by_server.setdefault((each.broker, server), []).append(name)
        for (broker, server), of_server in by_server.items():
            try:
                told = _asked(transaction_wire.describe_transactions, server, broker, of_server)
            except KcliError as failure:
                yield from ((name, failure) for name in of_server)
                continue
            for error, transaction in told:
                yield transaction.transactional_id, transaction if error is ErrorCode.none else error

    def _coordinators(self, names: list[str]) -> dict[str, transaction_wire.Coordinator]:
        """Who coordinates these, as the first broker that answers says. Raises KcliError where none does."""
        failure = KcliError("there is no broker that could be asked")
        for _, server in sorted(self._servers.items()):
            try:
                return _asked(transaction_wire.find_coordinators, server, names)
            except KcliError as error:
                failure = error
        raise failure

    def places(self, topic: str | None, broker: int | None) -> list[Place]:
        """The partitions of a topic, or all; with a broker, those that it has replicas of. Raises KcliError."""
        if broker is not None:
            self._server(broker)
        if topic is not None and (topic not in self._topics or self._topics[topic].error is not None):
            raise _refused(topic, ErrorCode.unknown_topic_or_partition)
        return sorted(
            (name, number)
            for name in (self._topics if topic is None else [topic])
            for number, each in self._topics[name].partitions.items()
            if broker is None or broker in each.replicas
        )

    def producers(
        self, places: Iterable[Place], broker: int | None
    ) -> Iterator[tuple[Place, list[Producer]] | KcliError]:
        """The producers that partitions know, as their leaders, or a broker, have it; or why not."""
        by_server: dict[Server, list[Place]] = {}
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
                    told = _asked(transaction_wire.describe_producers, server, part)
                except KcliError as failure:
                    yield failure
                    continue
                for (topic, number), error, found in told:
                    yield ((topic, number), found) if error is ErrorCode.none else _refused(f"{topic}-{number}", error)

    def abort(self, place: Place, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> None:
        """Have a partition's leader end a transaction. Raises KcliError."""
        marker = place, producer_id, producer_epoch, coordinator_epoch
        error = _asked(transaction_wire.abort, self._leader(place), *marker)
        if error is not ErrorCode.none:
            raise _refused(f"{place[0]}-{place[1]}", error)

    def fence(self, transactional_id: str) -> None:
        """Have a coordinator abort what a transactional id has open, and fence its producer. Raises KcliError."""
        deadline = time.monotonic() + self._timeout_s
        while (error := self._fenced(transactional_id)) in PASSING and time.monotonic() < deadline:
            time.sleep(RETRY_S)
        if error is not ErrorCode.none:
            raise _refused(transactional_id, error)

    def _fenced(self, transactional_id: str) -> ErrorCode:
        found = self._coordinators([transactional_id]).get(transactional_id)
        if found is None:
            return ErrorCode.coordinator_not_available
        if found.error is not ErrorCode.none:
            return found.error
        return _asked(transaction_wire.fence, self._at(found.host, found.port), transactional_id)

    def _leader(self, place: Place) -> Server:
        topic, number = place
        found = self._topics[topic].partitions.get(number) if topic in self._topics else None
        if found is None:
            raise _refused(f"{topic}-{number}", ErrorCode.unknown_topic_or_partition)
        if found.leader not in self._servers:
            raise _refused(f"{topic}-{number}", ErrorCode.leader_not_available)
        return self._servers[found.leader]

    def _server(self, broker: int) -> Server:
        if broker not in self._servers:
            raise KcliError(f"there is no broker {broker}")
        return self._servers[broker]


def _asked(ask: Callable[Concatenate[Server, P], T], server: Server, *args: P.args, **named: P.kwargs) -> T:
    try:
        return ask(server, *args, **named)
    except (OSError, NoAnswer) as failure:
        raise KcliError(f"{server.host}:{server.port}: no answer: {failure}") from None


def _refused(what: str, error: ErrorCode) -> KcliError:
    return Refused(what, KafkaError(error.value))
