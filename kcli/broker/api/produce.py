"""Produce (0): append a batch to each of some partitions.

v3 magic 2 batches, transactional id. v5 log start offset in the answer. v7 zstd. v8 errors of records (KIP-467).
v9 flexible. v10 the current leader (KIP-951). v11 transaction errors (KIP-890). v12 transactions without
AddPartitionsToTxn. v13 topic ids (KIP-516). Versions 0 to 2 are advertised, for old librdkafka, and not served.

acks: 0 no answer, 1 the leader has it, -1 all in-sync replicas have it; on a single node the last two are one.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.broker.messages import Call, Entity, ErrorCode, HangUp, date
from kcli.log.partition_log import Appended, LogFailed
from kcli.log.validator import AppendError, AppendRefused, RecordError

NO_ACKS, LEADER_ACKS, ALL_ACKS = 0, 1, -1
CODEC_MASK, ZSTD = 7, 4
MAGIC_AT, ATTRIBUTES_AT = 16, 22  # bytes of a batch; of the attributes the low one
MAGIC = 2
ZSTD_VERSION = 7
TOPIC_IDS_VERSION = 13
ADMIN_CLIENT_ID = "__admin_client"
WITHOUT_START_OFFSET = (
    AppendError.MESSAGE_TOO_LARGE,
    AppendError.RECORD_LIST_TOO_LARGE,
    AppendError.CORRUPT_MESSAGE,
)
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")



@dataclass(frozen=True, slots=True)
class Refused:
    """Why nothing was appended; reason and records only where single records are at fault."""

    error: ErrorCode
    log_start_offset: int = -1
    reason: str | None = None
    records: tuple[RecordError, ...] = ()


Outcome = Appended | Refused


def produce(call: Call) -> Entity | None:
    """Errors: INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION (internal),
    NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, and those of kcli.log.validator."""
    request = call.request
    failed = False
    size = 0
    responses = []
    for topic in request.topic_data:
        name = _name_of(call, topic)
        partitions = []
        for asked in topic.partition_data:
            size += len(asked.records or b"")
            outcome = _append(call, name, asked.index, asked.records)
            failed = failed or not isinstance(outcome, Appended)
            partitions.append(_partition_response(call, asked.index, outcome))
        key = {"topic_id": topic.topic_id} if call.version >= TOPIC_IDS_VERSION else {"name": topic.name}
        responses.append(call.new("TopicProduceResponse", **key, partition_responses=tuple(partitions)))
    if call.broker.quotas.is_active:
        call.throttle_ms = call.broker.quotas.produce_throttle_ms(call, size)
    if request.acks == NO_ACKS:
        if failed:
            raise HangUp("a batch was refused, which with acks=0 only a closed connection can tell")
        return None
    return call.respond(responses=tuple(responses))


def _name_of(call: Call, topic: Entity) -> str | ErrorCode:
    if call.version < TOPIC_IDS_VERSION:
        name: str = topic.name
        return name
    known = None if topic.topic_id is None else call.broker.image.topics_by_id.get(topic.topic_id)
    return ErrorCode.unknown_topic_id if known is None else known.name


def _append(call: Call, topic: str | ErrorCode, index: int, records: bytes | None) -> Outcome:
    acks = call.request.acks
    if isinstance(topic, ErrorCode):
        return Refused(topic)
    partition = call.broker.partitions.get(topic, index)
    if partition is None:
        return Refused(ErrorCode.unknown_topic_or_partition)
    if records is None or len(records) <= ATTRIBUTES_AT or records[MAGIC_AT] != MAGIC:
        return Refused(ErrorCode.invalid_record)
    if call.version < ZSTD_VERSION and records[ATTRIBUTES_AT] & CODEC_MASK == ZSTD:
        return Refused(ErrorCode.unsupported_compression_type)
    if acks not in (NO_ACKS, LEADER_ACKS, ALL_ACKS):
        return Refused(ErrorCode.invalid_required_acks)
    if topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
        return Refused(ErrorCode.invalid_topic_exception)
    log = partition.log
    if acks == ALL_ACKS and log.config.min_insync_replicas > partition.in_sync_replicas:
        return Refused(ErrorCode.not_enough_replicas, log.log_start_offset)
    try:
        return partition.append_as_leader(bytearray(records), call.now_ms)
    except AppendRefused as refused:
        start = -1 if refused.error in WITHOUT_START_OFFSET else log.log_start_offset
        reason = refused.reason if refused.records else None
        return Refused(ErrorCode(refused.error.value), start, reason, refused.records)
    except (OSError, LogFailed) as error:
        partition.failed(error)
        return Refused(ErrorCode.kafka_storage_error)


def _partition_response(call: Call, index: int, outcome: Outcome) -> Entity:
    if isinstance(outcome, Appended):
        return call.new(
            "PartitionProduceResponse",
            index=index,
            error_code=ErrorCode.none,
            base_offset=outcome.first_offset,
            log_append_time=date(outcome.log_append_time),
            log_start_offset=outcome.log_start_offset,
            record_errors=(),
        )
    return call.new(
        "PartitionProduceResponse",
        index=index,
        error_code=outcome.error,
        base_offset=-1,
        log_append_time=None,
        log_start_offset=outcome.log_start_offset,
        record_errors=tuple(
            call.new("BatchIndexAndErrorMessage", batch_index=each.index, batch_index_error_message=each.reason)
            for each in outcome.records
        ),
        error_message=outcome.reason,
    )
