"""Registration, fencing and shutdown of brokers, and registration of controllers. The records for a node of Kafka 4.3
with both roles:

    start            RegisterControllerRecord
                     changes of its partitions if it leaves ISRs and ELRs, then RegisterBrokerRecord, fenced
                     BrokerRegistrationChangeRecord (unfenced), then elections of partitions without a leader
                     BrokerRegistrationChangeRecord (cordoned directories), if they have changed
    clean shutdown   BrokerRegistrationChangeRecord (in controlled shutdown), then changes that take the broker out of
                     the leadership and the ISR of its partitions
                     BrokerRegistrationChangeRecord (fenced)

A broker's epoch is the offset of the first record of its registration. Its last shutdown was clean if the broker
reports the epoch that it had then, from its `.kafka_cleanshutdown` file. broker_properties: the properties of this
controller, which set the defaults of topic configurations. Source: ClusterControlManager, ReplicationControlManager;
KIP-841 (controlled shutdown), KIP-966 (unclean shutdowns), KIP-1066.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from kcli.metadata import metadata_version as levels
from kcli.metadata.election import broker_is_unfenced, broker_is_unregistered, broker_leaves_isrs, broker_was_killed
from kcli.metadata.image import KRAFT_VERSION, METADATA_VERSION, MetadataImage, Record
from kcli.metadata.partition import from_uuid
from kcli.metadata.registration import Broker, Controller, Endpoint, VersionRange
from kcli.metadata.result import Refused
from kcli.metadata.snapshot import ELR_VERSION, broker_record, controller_record
from kcli.protocol.error_code import ErrorCode

NO_EPOCH = -1
UNKNOWN_EPOCH = -2
"""Stands for the epoch of a broker that never registered, and equals no epoch that a broker may report."""
RESERVED_IDS = 100
SECURITY_PROTOCOLS = range(4)
"""The codes of PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL."""
NO_LEVEL = VersionRange(0, 0)


def register_controller(image: MetadataImage, controller: Controller) -> list[Record]:
    """Return the record of a controller's registration; an empty list if metadata.version is too low for this record.
    Raises Refused(UNKNOWN_SERVER_ERROR) for an unknown security protocol."""
    if image.metadata_version < levels.CONTROLLER_REGISTRATION:
        return []
    _check_endpoints(controller.endpoints)
    return [controller_record(controller)]


def register_broker(
    image: MetadataImage,
    broker: Broker,
    previous_epoch: int | None,
    broker_properties: Mapping[str, str],
    *,
    kraft_version: int = 0,
    has_session: bool = False,
) -> list[Record]:
    """Return the records of a broker's registration, when the broker has started or when the same incarnation registers
    again. The last record is the broker's RegisterBrokerRecord.

    broker: the registration that the request asks for; its epoch is the offset that the first of these records will
    have. If this incarnation is registered already, its record gets the registered epoch instead. previous_epoch: the
    epoch that the broker had at its last clean shutdown, NO_EPOCH if it knows none, None if its request has no such
    field. kraft_version: the finalized level of kraft.version, which the image does not have. has_session: whether the
    registered incarnation has a session; another incarnation is refused while it has one.

    Raises Refused: DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION; UNSUPPORTED_VERSION if the broker does not
    support a finalized feature level; UNKNOWN_SERVER_ERROR for an unknown security protocol, as no Kafka node could
    read the record.
    """
    _check_endpoints(broker.endpoints)
    known = image.brokers.get(broker.id)
    is_new = known is None or known.incarnation_id != broker.incarnation_id
    if is_new and has_session:
        message = (
            "Another broker is registered with that broker id. If the broker was recently restarted this should "
            "self-resolve once the heartbeat manager expires the broker's session."
        )
        raise Refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, message)
    if image.metadata_version >= levels.DIRECTORIES:
        _check_directories(image, broker)
    _check_features(image, broker, kraft_version)
    records: list[Record] = []
    if known is None or is_new:
        epoch = UNKNOWN_EPOCH if known is None else known.epoch
        if epoch != previous_epoch and image.features.get(ELR_VERSION, 0) > 0:
            records = broker_was_killed(image, broker.id, broker_properties)
        else:
            records = broker_leaves_isrs(image, broker.id, broker_properties)
        fresh = replace(broker, fenced=True, in_controlled_shutdown=False, cordoned=None)
    else:
        fresh = replace(
            broker,
            epoch=known.epoch,
            fenced=known.fenced,
            in_controlled_shutdown=known.in_controlled_shutdown,
            cordoned=None,
        )
    return [*records, broker_record(fresh, image.metadata_version)]


def _check_endpoints(endpoints: Mapping[str, Endpoint]) -> None:
    for each in endpoints.values():
        if each.security_protocol not in SECURITY_PROTOCOLS:
            reason = f"Unknown security protocol {each.security_protocol} in listener {each.name}"
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, reason)


def _check_directories(image: MetadataImage, broker: Broker) -> None:
    directories = broker.directories
    if not directories:
        raise Refused(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(each.int < RESERVED_IDS for each in directories):
        raise Refused(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise Refused(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for other in image.brokers.values():
        for each in directories if other.id != broker.id else ():
            if each in other.directories:
                message = f"Broker {other.id} is already registered with directory {from_uuid(each)}"
                raise Refused(ErrorCode.INVALID_REGISTRATION, message)


def _check_features(image: MetadataImage, broker: Broker, kraft_version: int) -> None:
    finalized = {**image.features, KRAFT_VERSION: kraft_version}
    _check_levels(finalized, broker.features)
    if METADATA_VERSION not in broker.features:
        raise Refused(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
    _check_levels(finalized, {name: NO_LEVEL for name in finalized if name not in broker.features})


def _check_levels(finalized: Mapping[str, int], supported: Mapping[str, VersionRange]) -> None:
    for name, (least, most) in supported.items():
        level = finalized.get(name, 0)
        if not least <= level <= most:
            message = (
                f"Unable to register because the broker does not support finalized version {level} of {name}. "
                f"The broker wants a version between {least} and {most}, inclusive."
            )
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, message)


def unregister_broker(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """Return the records that remove a broker from the cluster. Raises Refused(BROKER_ID_NOT_REGISTERED)."""
    broker = _registered(image, broker_id)
    value = {"brokerId": broker_id, "brokerEpoch": broker.epoch}
    return [*broker_is_unregistered(image, broker_id, broker_properties), ("UnregisterBrokerRecord", 0, value)]


def unfence_broker(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """Return the records that unfence a broker, and elect leaders of partitions that have none; no records if the
    broker is not fenced. Raises Refused(BROKER_ID_NOT_REGISTERED)."""
    broker = _registered(image, broker_id)
    if not broker.fenced:
        return []
    return [_change(broker, 0, fenced=-1), *broker_is_unfenced(image, broker_id, broker_properties)]


def fence_broker(image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]) -> list[Record]:
    """Return the records that fence a broker, and take it out of the leadership and the ISR of its partitions; no
    records if the broker is fenced already. Raises Refused(BROKER_ID_NOT_REGISTERED)."""
    broker = _registered(image, broker_id)
    if broker.fenced:
        return []
    return [*broker_leaves_isrs(image, broker_id, broker_properties), _change(broker, 0, fenced=1)]


def begin_controlled_shutdown(
    image: MetadataImage, broker_id: int, broker_properties: Mapping[str, str]
) -> list[Record]:
    """Return the records that begin a broker's controlled shutdown: it gives up the leadership of its partitions
    and leaves their ISRs. Raises Refused(BROKER_ID_NOT_REGISTERED)."""
    broker = _registered(image, broker_id)
    records = [] if broker.in_controlled_shutdown else [_change(broker, 1, inControlledShutdown=1)]
    return [*records, *broker_leaves_isrs(image, broker_id, broker_properties)]


def cordon_directories(image: MetadataImage, broker_id: int, directories: Sequence[UUID]) -> list[Record]:
    """Return the record that sets a broker's cordoned log directories, which take no new replicas; no record if they
    are unchanged, or if metadata.version is too low for it. Raises Refused(BROKER_ID_NOT_REGISTERED)."""
    broker = _registered(image, broker_id)
    known = broker.cordoned
    if image.metadata_version < levels.CORDONED_DIRECTORIES or (known is not None and set(known) == set(directories)):
        return []
    return [_change(broker, 3, cordonedLogDirs=[from_uuid(each) for each in directories])]


def directories_offline(
    image: MetadataImage, broker_id: int, directories: Collection[UUID], broker_properties: Mapping[str, str]
) -> list[Record]:
    """Return the records for failed log directories of a broker: its replicas in these directories give up
    leadership and leave the ISR, and its registration loses the directories. No records if the broker has registered
    none of them, or if metadata.version is too low. Raises Refused(BROKER_ID_NOT_REGISTERED)."""
    broker = _registered(image, broker_id)
    failed = [each for each in broker.directories if each in directories]
    if image.metadata_version < levels.DIRECTORIES or not failed:
        return []
    online = [from_uuid(each) for each in broker.directories if each not in failed]
    records = broker_leaves_isrs(image, broker_id, broker_properties, failed)
    return [*records, _change(broker, 2, logDirs=online)]


def check_epoch(image: MetadataImage, broker_id: int, epoch: int) -> Broker:
    """Return the registered broker. Raises Refused(STALE_BROKER_EPOCH) if it is not registered with that epoch."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != epoch:
        message = f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, message)
    return broker


def _registered(image: MetadataImage, broker_id: int) -> Broker:
    broker = image.brokers.get(broker_id)
    if broker is None:
        message = f"Broker ID {broker_id} is not currently registered"
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    return broker


def _change(broker: Broker, version: int, **fields: Any) -> Record:
    value = {"brokerId": broker.id, "brokerEpoch": broker.epoch, **fields}
    return "BrokerRegistrationChangeRecord", version, value
