"""The registrations of brokers and controllers in the metadata log.

    RegisterBrokerRecord            a broker has started, with a new epoch (the record's offset) and incarnation id
    BrokerRegistrationChangeRecord  fenced, in controlled shutdown: 1 yes, -1 no, 0 unchanged; log directories
    FenceBrokerRecord, Unfence...   fenced or unfenced, in logs older than BrokerRegistrationChangeRecord
    UnregisterBrokerRecord          the broker is removed from the cluster
    RegisterControllerRecord        a controller has started

Source: BrokerRegistration, ControllerRegistration; KIP-631, KIP-841 (controlled shutdown), KIP-858 (directories),
KIP-919 (controllers), KIP-1066 (cordoned directories).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from kcli.metadata.partition import to_uuid


class Endpoint(NamedTuple):
    """The address of a listener. security_protocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    """The levels of a feature that a node supports, both ends included."""

    min: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A registered broker. directories: ids of its log directories, sorted as Kafka does. cordoned: ids of the log
    directories that take no new replicas, None if the broker has never reported cordoned directories."""

    id: int
    epoch: int
    incarnation_id: UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    is_migrating_zk_broker: bool = False
    directories: tuple[UUID, ...] = ()
    cordoned: tuple[UUID, ...] | None = None

    @classmethod
    def of(cls, record: dict[str, Any]) -> Broker:
        """Return the broker of a RegisterBrokerRecord. Raises BadValue for a text that is no UUID."""
        cordoned = record.get("cordonedLogDirs")
        return cls(
            id=record["brokerId"],
            epoch=record["brokerEpoch"],
            incarnation_id=to_uuid(record["incarnationId"]),
            endpoints=_endpoints(record),
            features=_features(record),
            rack=record.get("rack"),
            fenced=record.get("fenced", True),
            in_controlled_shutdown=record.get("inControlledShutdown", False),
            is_migrating_zk_broker=record.get("isMigratingZkBroker", False),
            directories=sorted_uuids(record.get("logDirs", ())),
            cordoned=None if cordoned is None else tuple(to_uuid(text) for text in cordoned),
        )

    @property
    def active(self) -> bool:
        """Whether the broker may lead partitions and join ISRs: neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def has_uncordoned_directory(self) -> bool:
        """Whether the broker has a log directory for new replicas."""
        return not self.directories or self.cordoned is None or not set(self.directories) <= set(self.cordoned)

    def changed(self, record: dict[str, Any]) -> Broker:
        """Return the broker after a BrokerRegistrationChangeRecord. Raises BadValue for a text that is no UUID."""
        fenced, shutdown = record.get("fenced", 0), record.get("inControlledShutdown", 0)
        directories, cordoned = record.get("logDirs"), record.get("cordonedLogDirs")
        return replace(
            self,
            fenced=fenced > 0 if fenced else self.fenced,
            in_controlled_shutdown=shutdown > 0 if shutdown else self.in_controlled_shutdown,
            directories=sorted_uuids(directories) if directories else self.directories,
            cordoned=self.cordoned if cordoned is None else tuple(to_uuid(text) for text in cordoned),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """A registered controller."""

    id: int
    incarnation_id: UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]
    zk_migration_ready: bool = False

    @classmethod
    def of(cls, record: dict[str, Any]) -> Controller:
        """Return the controller of a RegisterControllerRecord. Raises BadValue for a text that is no UUID."""
        return cls(
            id=record["controllerId"],
            incarnation_id=to_uuid(record["incarnationId"]),
            endpoints=_endpoints(record),
            features=_features(record),
            zk_migration_ready=record.get("zkMigrationReady", False),
        )


def sorted_uuids(texts: list[str] | tuple[str, ...]) -> tuple[UUID, ...]:
    """Return the UUIDs in the order of Java's UUID.compareTo: by two signed 64-bit halves."""
    return tuple(sorted((to_uuid(text) for text in texts), key=_java_order))


def _java_order(value: UUID) -> tuple[int, int]:
    raw = value.bytes
    return int.from_bytes(raw[:8], signed=True), int.from_bytes(raw[8:], signed=True)


def _endpoints(record: dict[str, Any]) -> dict[str, Endpoint]:
    return {
        each["name"]: Endpoint(each["name"], each["host"], each["port"], each["securityProtocol"])
        for each in record["endPoints"]
    }


def _features(record: dict[str, Any]) -> dict[str, VersionRange]:
    return {
        each["name"]: VersionRange(each["minSupportedVersion"], each["maxSupportedVersion"])
        for each in record["features"]
    }
