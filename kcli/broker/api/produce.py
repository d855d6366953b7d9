"""Produce (0): append a batch to each of some partitions.

v3 magic 2 batches, transactional id. v5 log start offset in the answer. v7 zstd. v8 errors of records (KIP-467).
v9 flexible. v10 the current leader (KIP-951). v11 transaction errors (KIP-890). v12 transactions without
AddPartitionsToTxn. v13 topic ids (KIP-516). Versions 0 to 2 are advertised, for old librdkafka, and not served.

acks: 0 no answer, 1 the leader has it, -1 all in-sync replicas have it: the answer waits until the high watermark has
passed it, for `timeout` at most. On a single node the last two are one, and nothing waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from functools import partial
from uuid import UUID

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.coordinators.transaction_check import (
    Producer,
    Verdict,
    producing,
    transactional_producer,
    unverified,
    verdict,
    verify,
)
from kcli.broker.current_leader import current_leader, endpoints_field, leader_field
from kcli.broker.logs.partitions import Partition
from kcli.broker.long_batches import Batches, Checked, Place, check_apart, long_batches
from kcli.broker.network.connection import Laid, Later
from kcli.broker.network.layout import NO_TAGS
from kcli.broker.network.messages import Call, Entity, ErrorCode, HangUp
from kcli.broker.network.produce_layout import PartitionAnswer, lay_out
from kcli.log.partition_log import LogFailed
from kcli.log.validator import NO_KEY, AppendError, AppendRefused, AppendRules, CheckedBatch, RecordError

NO_ACKS, LEADER_ACKS, ALL_ACKS = 0, 1, -1
CODEC_MASK, ZSTD = 7, 4
MAGIC_AT, ATTRIBUTES_AT = 16, 22  # bytes of a batch; of the attributes the low one
MAGIC = 2
ZSTD_VERSION = 7
LEADERS_VERSION, TOPIC_IDS_VERSION = 10, 13
ADMIN_CLIENT_ID = "__admin_client"
WITHOUT_START_OFFSET = (
    AppendError.MESSAGE_TOO_LARGE,
    AppendError.RECORD_LIST_TOO_LARGE,
    AppendError.CORRUPT_MESSAGE,
)
ZERO_ID = UUID(int=0)


Refusals = Mapping[tuple[str, int], Verdict]
"""By topic and partition."""


Answers = list[tuple[str | UUID, list[PartitionAnswer]]]
Waits = list[tuple[PartitionAnswer, Partition, int]]
"""Batches that not all replicas in sync have yet: the high watermark that says they do."""


def produce(call: Call) -> Laid | Later | Awaitable[Laid | None] | None:
    """Errors: INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION (internal),
    NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT,
    KAFKA_STORAGE_ERROR, those of kcli.log.validator; of transactional
    batches TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional id, and those of transaction_check."""
    batches = _transactional(call)
    waiting: list[tuple[Partition, Producer]] = []
    if batches:
        if call.request.transactional_id is None:
            return _refuse_all(call, ErrorCode.transactional_id_authorization_failed)
        if len({(producer.id, producer.epoch) for _, _, producer in batches}) > 1:
            return _refuse_all(call, ErrorCode.invalid_producer_id_mapping)
        if producing(call.version).adds or call.broker.config.get("transaction.partition.verification.enable"):
            waiting = unverified(_existing(call, batches))
    compressed = _compressed(call)
    long = long_batches(compressed) if compressed else compressed
    if waiting or long:
        return _look_and_append(call, waiting, long)
    return _append_all(call, {}, {})


def _compressed(call: Call) -> dict[Place, tuple[memoryview, AppendRules]]:
    """The batches that are compressed, or will be."""
    found = {}
    partitions = call.broker.partitions
    for i, topic in enumerate(call.request.topic_data):
        name = _name_of(call, topic)
        for j, asked in enumerate(topic.partition_data):
            records = asked.records
            partition = None if isinstance(name, ErrorCode) else partitions.get(name, asked.index)
            log = None if partition is None else partition.opened_log
            if log is None or records is None or len(records) <= ATTRIBUTES_AT:
                continue
            rules = log.append_rules
            if records[ATTRIBUTES_AT] & CODEC_MASK or rules.codec:
                found[i, j] = records, rules
    return found


def _transactional(call: Call) -> list[tuple[str | ErrorCode, int, Producer]]:
    """Topic, partition and producer of each transactional batch."""
    return [
        (_name_of(call, topic), asked.index, producer)
        for topic in call.request.topic_data
        for asked in topic.partition_data
        if (producer := transactional_producer(asked.records)) is not None and producer.id >= 0
    ]


def _existing(call: Call, batches: list[tuple[str | ErrorCode, int, Producer]]) -> list[tuple[Partition, Producer]]:
    found = []
    for topic, index, producer in batches:
        partition = None if isinstance(topic, ErrorCode) else call.broker.partitions.get(topic, index)
        if partition is not None and partition.check_leader_epoch() is None:
            found.append((partition, producer))
    return found


async def _look_and_append(call: Call, waiting: list[tuple[Partition, Producer]], long: Batches) -> Laid | None:
    """Append once the coordinator knows of the transaction's partitions, and long batches are checked."""
    refusals: Refusals = {}
    if waiting:
        client = producing(call.version)
        wrong = await verify(call.broker, call.request.transactional_id, client, waiting)
        refusals = {place: verdict(code, client) for place, code in wrong.items()}
    answer = _append_all(call, refusals, await check_apart(long, call.now_ms))
    return await answer if isinstance(answer, Later) else answer


def _refuse_all(call: Call, code: ErrorCode) -> Laid | None:
    """The request is refused as a whole."""
    if call.request.acks == NO_ACKS:
        return None
    return lay_out(
        call.messages,
        call.header.correlation_id,
        [
            (_key_of(call, topic), [PartitionAnswer(asked.index, code.value) for asked in topic.partition_data])
            for topic in call.request.topic_data
        ],
    )


def _append_all(call: Call, refusals: Refusals, checked: Checked) -> Laid | Later | None:
    request = call.request
    waits: Waits = []
    failed = False
    size = 0
    answers: Answers = []
    for i, topic in enumerate(request.topic_data):
        name = _name_of(call, topic)
        partitions = []
        for j, asked in enumerate(topic.partition_data):
            size += len(asked.records or b"")
            refusal = refusals.get((name, asked.index)) if refusals and isinstance(name, str) else None
            if refusal is None:
                answer = _append(call, name, asked, waits, checked.get((i, j)))
            else:
                answer = PartitionAnswer(asked.index, refusal.code.value, error_message=refusal.reason)
            failed = failed or answer.error_code != 0
            partitions.append(answer)
        answers.append((_key_of(call, topic), partitions))
    if call.broker.quotas.is_active:
        call.throttle_ms = call.broker.quotas.produce_throttle_ms(call, size)
    if request.acks == NO_ACKS:
        if failed:
            raise HangUp("a batch was refused, which with acks=0 only a closed connection can tell")
        return None
    if waits:
        return _wait(call, answers, waits)
    return _answer(call, answers, failed=failed)


def _answer(call: Call, answers: Answers, *, failed: bool) -> Laid:
    """The answer; who is not the leader says who is."""
    endpoints = NO_TAGS
    if failed and call.version >= LEADERS_VERSION:
        leaders = []
        for topic, partitions in answers:
            for each in partitions:
                if each.error_code == ErrorCode.not_leader_or_follower.value:
                    leader = current_leader(call, _topic_named(call, topic), each.index)
                    each.leader = leader_field(leader)
                    leaders.append(leader)
        endpoints = endpoints_field(call, leaders)
    return lay_out(call.messages, call.header.correlation_id, answers, endpoints)


def _topic_named(call: Call, topic: str | UUID) -> str:
    if isinstance(topic, str):
        return topic
    known = call.broker.image.topics_by_id.get(topic)
    return "" if known is None else known.name


def _wait(call: Call, answers: Answers, waits: Waits) -> Later:
    """Answer when all of them are committed, or will not be."""
    timeout_s = max(call.request.timeout, 0) / 1000
    call.request = None  # its batches are in the log: the frame they came in can go
    futures = [partition.wait_committed(offset, timeout_s) for _, partition, offset in waits]
    if len(futures) == 1:
        return Later(futures[0], partial(_committed, call, answers, waits, futures))
    return Later(_all_of(futures), partial(_committed, call, answers, waits, futures))


def _all_of(futures: list[asyncio.Future[ErrorCode]]) -> asyncio.Future[None]:
    """Done with the last of them."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    left = len(futures)

    def one(_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0 and not done.done():
            done.set_result(None)

    for each in futures:
        each.add_done_callback(one)
    return done


def _committed(
    call: Call,
    answers: Answers,
    waits: Waits,
    futures: list[asyncio.Future[ErrorCode]],
    _: object,
) -> Laid:
    for (answer, _partition, _offset), future in zip(waits, futures, strict=True):
        code = future.result()
        if code is not ErrorCode.none:
            answer.error_code = code.value
    return _answer(call, answers, failed=any(each.error_code for _, partitions in answers for each in partitions))


def _key_of(call: Call, topic: Entity) -> str | UUID:
    """What names a topic in the answer."""
    return topic.name if call.version < TOPIC_IDS_VERSION else topic.topic_id or ZERO_ID


def _name_of(call: Call, topic: Entity) -> str | ErrorCode:
    if call.version < TOPIC_IDS_VERSION:
        name: str = topic.name
        return name
    known = None if topic.topic_id is None else call.broker.image.topics_by_id.get(topic.topic_id)
    return ErrorCode.unknown_topic_id if known is None else known.name


def _append(
    call: Call, topic: str | ErrorCode, asked: Entity, waits: Waits, checked: CheckedBatch | AppendRefused | None
) -> PartitionAnswer:
    index, records = asked.index, asked.records
    partition = _leader(call, topic, index, records)
    if isinstance(partition, ErrorCode):
        return PartitionAnswer(index, partition.value)
    assert records is not None, "no refusal"
    try:
        log = partition.log
        if call.request.acks == ALL_ACKS and partition.lacks_replicas:
            return PartitionAnswer(index, ErrorCode.not_enough_replicas.value, log_start_offset=log.log_start_offset)
        if isinstance(checked, AppendRefused):
            raise checked
        done = partition.append_as_leader(records, call.now_ms, checked=checked)
    except AppendRefused as refused:
        start = -1 if refused.error in WITHOUT_START_OFFSET else log.log_start_offset
        reason = refused.reason if refused.records else None  # Kafka gives a reason only where records are at fault
        records_at_fault = tuple(_told(each, f"{topic}-{index}") for each in refused.records)
        return PartitionAnswer(index, refused.error.value, -1, -1, start, records_at_fault, reason)
    except (OSError, LogFailed) as failure:
        partition.failed(failure)
        return PartitionAnswer(index, ErrorCode.kafka_storage_error.value)
    answer = PartitionAnswer(index, 0, done.first_offset, done.log_append_time, done.log_start_offset)
    if log.high_watermark <= done.last_offset and call.request.acks == ALL_ACKS:
        waits.append((answer, partition, done.last_offset + 1))
    return answer


def _told(error: RecordError, partition: str) -> RecordError:
    """Kafka names the partition where a key is missing, and only there."""
    return error if error.reason != NO_KEY else RecordError(error.index, f"{NO_KEY} in topic partition {partition}")


def _leader(call: Call, topic: str | ErrorCode, index: int, records: memoryview | None) -> Partition | ErrorCode:
    """The partition to append to, or what is wrong before its log is asked."""
    if isinstance(topic, ErrorCode):
        return topic
    partition = call.broker.partitions.look_up(topic, index)
    if partition is ErrorCode.unknown_topic_or_partition:
        return partition
    if records is None or len(records) <= ATTRIBUTES_AT or records[MAGIC_AT] != MAGIC:
        return ErrorCode.invalid_record
    if records[ATTRIBUTES_AT] & CODEC_MASK == ZSTD and call.version < ZSTD_VERSION:
        return ErrorCode.unsupported_compression_type
    if call.request.acks not in (NO_ACKS, LEADER_ACKS, ALL_ACKS):
        return ErrorCode.invalid_required_acks
    if topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
        return ErrorCode.invalid_topic_exception
    if isinstance(partition, ErrorCode):
        return partition
    return partition.check_leader_epoch() or partition
