"""Produce (0): append one batch to each partition of the request.

v3 magic 2 batches, transactional id. v5 log start offset in the response. v7 zstd. v8 errors of records (KIP-467). v9
flexible. v10 the current leader (KIP-951). v11 TRANSACTION_ABORTABLE (KIP-890). v12 transactions without
AddPartitionsToTxn. v13 topic ids (KIP-516). Versions 0 to 2 are advertised, for old librdkafka, but not served.

Most requests are plain: compiled code (formats/kernels/produce.pyx) handles them without this module. Their batches
pass all the rules below, of which Runway (formats/kernels/append.pyx) checks 10 to 13.

The rules for a request, from validation to acknowledgement, in Kafka's order. Each rule says what must hold; the error
of a batch that breaks the rule follows after a colon. A batch that breaks two rules is refused by the first of them.
The other batches of the request are still appended, except under rules 1 and 4.

The request, before it reaches a log (KafkaApis.handleProduceRequest, ReplicaManager.handleProduceAppend):

     1  The first batch of each partition has a valid length and magic, else all of the request is
        refused with CORRUPT_MESSAGE, or UNKNOWN_SERVER_ERROR if the size of the batch exceeds an int32. With a
        transactional batch the request must name its transactional id, else all of it is refused with
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED. The first batch in the request that breaks this rule decides the error;
        batches after the first transactional one are not checked. (`_refused_by_heads`)
     2  From version 13 on a topic is named by its id, which the metadata must know: UNKNOWN_TOPIC_ID. The metadata must
        know the partition: UNKNOWN_TOPIC_OR_PARTITION. (`_name_of`, `_append`)
     3  The records for a partition are one batch of magic 2; the bytes of an incomplete second batch are dropped:
        INVALID_RECORD; CORRUPT_MESSAGE for an invalid length or magic of a second batch;
        UNSUPPORTED_COMPRESSION_TYPE for zstd below version 7. (`_one_batch`)
     4  The batches that pass rules 2 and 3 are long enough for a producer id, else all of the request is refused with
        UNKNOWN_SERVER_ERROR. The transactional ones among them have one producer id and epoch, else all of the request
        is refused with INVALID_PRODUCER_ID_MAPPING. (`produce`)
     5  If a transaction has no batch in the partition yet, its coordinator verifies that the partition is part of
        it, or adds the partition from version 12 on. The request waits for the coordinator, and a batch that it refuses
        gets INVALID_TXN_STATE, INVALID_PRODUCER_EPOCH, or NOT_ENOUGH_REPLICAS if the producer must try again.
        (`verify` in transaction_check)
     6  acks is 0, 1 or -1: INVALID_REQUIRED_ACKS. (`_append`)
     7  Only the broker's own admin client appends to an internal topic: INVALID_TOPIC_EXCEPTION. (`_append`)
     8  The partition's log directory is online, and this broker leads the partition: KAFKA_STORAGE_ERROR,
        NOT_LEADER_OR_FOLLOWER. The response to the latter names the leader, from version 10 on. (`check_leader_epoch`)
     9  With acks=-1 the ISR has min.insync.replicas members: NOT_ENOUGH_REPLICAS. (`lacks_replicas`)

The log (UnifiedLog.append, LogValidator, ProducerAppendInfo), in `append_as_leader` of PartitionLog:

    10  The batch begins at offset 0, is not longer than max.message.bytes, and its CRC is right: INVALID_RECORD,
        MESSAGE_TOO_LARGE, CORRUPT_MESSAGE. Then header and records: the counts fit, no control batch, keys if the
        topic is compacted, timestamps near enough: INVALID_RECORD, INVALID_TIMESTAMP. A batch of another codec than the
        topic's is compressed anew, and must not be too long after that either. With
        confluent.value.schema.validation or confluent.key.schema.validation, the schema ids are registered for the
        topic: INVALID_RECORD (`refusal` in schema_rules). (`check` in validator. `accept_plain`
        and Runway check the usual batch at once, `check_apart` checks in a thread a batch that takes long to
        decompress)
    11  The leader writes offsets and leader epoch into the batch (`place`), and records a new epoch (`_assign_epoch`).
        The batch must fit into a segment: RECORD_LIST_TOO_LARGE. A segment that is full or old enough is rolled, even
        if rule 12 then refuses the batch. (`_roll_if_due`)
    12  A batch that the producer sends again, one of its last five, is acknowledged with the offsets of its first
        append, and not appended again. For other batches the producer epoch is not below the partition's latest, the
        sequence follows the last one, and a non-transactional batch does not come within an open transaction:
        INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE. (`check_producer`)
    13  The batch is appended; log end offset and producer state are advanced. flush.messages may demand a flush;
        without it the append does not wait for the disk: KAFKA_STORAGE_ERROR if a write fails. (`_write`)
    14  A leader alone in the ISR moves the high watermark at once. Waiting fetches of followers are woken, and those of
        consumers when the high watermark has moved. (`_appended` of Partition)

The response (DelayedProduce, ClientQuotaManager):

    15  The bytes of the request count for the producer's quota, those of refused batches too. The response to a
        client above its quota has the throttle time, and is not delayed by it. (`produce_throttle_ms`)
    16  acks=0: no response; if a batch was refused, the connection is closed instead.
    17  acks=1: the response is sent at once. With acks=-1 it is sent at once, too, if the high watermark has passed
        all batches that were appended.
    18  acks=-1: the response waits until the high watermark has passed every batch that was appended, but not longer
        than the request's timeout: REQUEST_TIMED_OUT; NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR has shrunk meanwhile;
        NOT_LEADER_OR_FOLLOWER if the leader has changed. The batches stay in the log. (`wait_committed`)
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import Counter
from collections.abc import Awaitable, Container, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.authorization import EVERYTHING
from kcli.broker.broker import Broker
from kcli.broker.client_view.current_leader import current_leader, endpoints_field, leader_field
from kcli.broker.coordinators.transaction_check import (
    Producer,
    Verdict,
    producing,
    transactional_producer,
    unverified,
    verdict,
    verify,
)
from kcli.broker.partition.long_batches import Batches, Checked, Place, check_apart, long_batches
from kcli.broker.partition.partitions import Partition
from kcli.broker.wire.answers import REFUSED_WITHOUT_ACKS, Encoded, HangUp, Laid, Later
from kcli.broker.wire.call import Client
from kcli.broker.wire.layout import NO_TAGS
from kcli.broker.wire.messages import Messages, messages
from kcli.broker.wire.produce_layout import PartitionAnswer, lay_out, read_back
from kcli.broker.wire.produce_request import PartitionProduceData, TopicData, TopicProduceData, as_taken
from kcli.log.live.partition_log import LogFailed
from kcli.log.live.validator import (
    NO_KEY,
    AppendRefused,
    AppendRules,
    CheckedBatch,
    UnregisteredSchema,
    refused_reason,
)
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import produce as types

log = logging.getLogger("kcli.broker")
PRODUCE = 0
NO_ACKS, LEADER_ACKS, ALL_ACKS = 0, 1, -1
CODEC_MASK, ZSTD = 7, 4
LENGTH_AT, MAGIC_AT, ATTRIBUTES_AT = 8, 16, 22  # positions in a batch; the third is the attributes' low byte
BATCH_HEAD = struct.Struct(">8xi4xB5xB")  # length, magic and attributes
LENGTH_END = 12  # the length field counts the bytes after itself
LENGTH_MIN = 14  # the smallest value of the length field, that of a magic 0 batch
LENGTH_MAX = 2**31 - 1 - LENGTH_END  # so that the size of the whole batch is an int32
PRODUCER_ID_END = 51  # a shorter batch of magic 2 lacks a part of its producer id
TRANSACTIONAL = 16
MAGIC = 2
ZSTD_VERSION = 7
LEADERS_VERSION = 10
ADMIN_CLIENT_ID = "__admin_client"
COMMON_REFUSALS = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
)
"""If a batch is refused with one of these errors, the response has log start offset -1, and the program's log gets no
line about the refusal, as in Kafka."""
ZERO_ID = UUID(int=0)
NO_BATCH = "the records of a partition are no batch"
TWO_PRODUCERS = "Transactional records contained more than one producer ID"


Refusals = Mapping[TopicPartition, Verdict]
"""Partition -> the error and message with which the transaction coordinator refuses the batch."""


Answers = list[tuple[str | UUID, list[PartitionAnswer]]]
RequestPartition = tuple[TopicData, PartitionProduceData]
"""A topic of the request, and the request's records for one of the topic's partitions."""
Transactional = tuple[str | ErrorCode, int, memoryview | None, Producer]
"""A transactional batch: its topic, or the error for that topic; its partition, records and producer."""
Waits = list[tuple[PartitionAnswer, Partition, int]]
"""Appended batches with acks=-1 that are not committed yet: the result, the partition, and the offset that the high
watermark must reach."""


class Reply(NamedTuple):
    """The parts of a request that its response needs: message classes of the version, correlation id, listener of the
    client."""

    messages: Messages
    correlation_id: int
    listener: str

    @classmethod
    def to(cls, call: types.ProduceCall) -> Reply:
        """Return the Reply for the response to a decoded request."""
        return cls(call.messages, call.header.correlation_id, call.listener)


def answer_plain(broker: Broker, frame: memoryview, client: Client, now_ms: int) -> Laid | Later | None:
    """Return the response to a plain Produce request, which compiled code handles: an empty frame with acks=0; a Later
    with acks=-1, if followers in the ISR lack a batch. Return None, and change nothing, for a request that has to be
    decoded. Client quotas are not checked. Raises HangUp, which closes the connection, with acks=0 if a batch could not
    be written."""
    lanes = broker.lanes
    response = lanes.answer(frame, now_ms, broker.access.writes_unaudited(client))
    if response is None:
        return None
    if not response and lanes.has_failed:
        raise HangUp(REFUSED_WITHOUT_ACKS)
    waits = [each for each in lanes.waits if each[0].log.high_watermark < each[1]]
    if not waits:
        return Encoded([response])
    timeout_s = max(lanes.timeout_ms, 0) / 1000
    outcomes = {number: partition.wait_committed(offset, timeout_s) for partition, offset, number in waits}
    version, correlation_id = int.from_bytes(frame[2:4]), int.from_bytes(frame[4:8], signed=True)
    reply = Reply(messages(PRODUCE, version), correlation_id, client.listener)
    return Later(_all_of(list(outcomes.values())), partial(_plain_committed, broker, reply, response, outcomes))


def _plain_committed(
    broker: Broker, reply: Reply, response: bytes, outcomes: dict[int, asyncio.Future[ErrorCode]], _: object
) -> Laid:
    """Return the response to a plain request once no batch waits for the high watermark any longer. A batch whose wait
    has failed gets the error of the wait. response: the encoded response, without these errors. outcomes: the batch's
    number in the request -> the future of its wait, which is done."""
    codes = {number: outcome.result() for number, outcome in outcomes.items()}
    if not any(codes.values()):
        return Encoded([response])
    answers = read_back(reply.messages.version, response)
    for number, each in enumerate(each for _, partitions in answers for each in partitions):
        each.error_code = each.error_code or codes.get(number, ErrorCode.NONE).value
    return _answer(broker, reply, answers, failed=True)


def produce(broker: Broker, call: types.ProduceCall) -> Laid | Later | Awaitable[Laid | None] | None:
    """Errors: INVALID_REQUIRED_ACKS, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION (internal),
    NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT,
    KAFKA_STORAGE_ERROR, and those of kcli.log.live.validator. Transactional batches:
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED without a transactional id, INVALID_PRODUCER_ID_MAPPING with more than one
    producer, and those of transaction_check. Raises HangUp with acks=0 if a batch is refused."""
    call.request.topic_data = as_taken(call.request.topic_data)
    waiting: list[tuple[Partition, Producer]] = []
    writable = broker.access.among(
        call, Operation.WRITE, ResourceType.TOPIC, partial(_counts, broker, call.request.topic_data)
    )
    odd = _odd(call)
    if odd:
        refused = _refused_by_heads(broker, call, odd)
        if refused is not None:
            return refused
        known = [(topic, data) for topic, data in odd if _exists(broker, writable, topic, data.index)]
        if any(_is_without_producer_id(data.records, call.version) for _, data in known):
            return _refuse_all(call, ErrorCode.UNKNOWN_SERVER_ERROR)
        batches = _transactional(broker, call, writable, known)
        if len({(producer.id, producer.epoch) for _, _, _, producer in batches}) > 1:
            return _refuse_all(call, ErrorCode.INVALID_PRODUCER_ID_MAPPING, TWO_PRODUCERS)
        if producing(call.version).adds or broker.config.get("transaction.partition.verification.enable"):
            waiting = unverified(_existing(broker, batches))
    compressed = _compressed(broker, call, writable)
    long = long_batches(compressed) if compressed else compressed
    if waiting or long:
        return _verify_and_append(broker, call, writable, waiting, long)
    return _append_all(broker, call, writable, {}, {})


def _compressed(
    broker: Broker, call: types.ProduceCall, writable: Container[str]
) -> dict[Place, tuple[memoryview, AppendRules]]:
    """Return the batches that are compressed, or are to be compressed with the topic's codec, each with the rules for
    its check, by the index of the topic and of the partition in the request. Leaves out batches that break rule 3 of
    the module's docstring, and partitions whose log this broker has not opened."""
    found = {}
    partitions = broker.partitions
    for i, topic in enumerate(call.request.topic_data):
        name = _name_of(broker, writable, topic)
        for j, data in enumerate(topic.partition_data):
            records = data.records
            partition = None if isinstance(name, ErrorCode) else partitions.get(name, data.index)
            opened = None if partition is None else partition.opened_log
            if opened is None or records is None or len(records) <= ATTRIBUTES_AT:
                continue
            rules = opened.append_rules
            if records[ATTRIBUTES_AT] & CODEC_MASK or rules.codec:
                batch = _one_batch(records, call.version)
                if not isinstance(batch, ErrorCode):
                    found[i, j] = batch, rules
    return found


def _odd(call: types.ProduceCall) -> list[RequestPartition]:
    """The topics and partitions of the request whose records are not exactly one whole, non-transactional batch of
    magic 2."""
    return [
        (topic, data)
        for topic in call.request.topic_data
        for data in topic.partition_data
        if not _is_usual(data.records)
    ]


def _is_usual(records: memoryview | None) -> bool:
    if records is None or len(records) < PRODUCER_ID_END:
        return False
    length, magic, attributes = BATCH_HEAD.unpack_from(records)
    return bool(LENGTH_END + length == len(records) and magic == MAGIC and not attributes & TRANSACTIONAL)


def _refused_by_heads(broker: Broker, call: types.ProduceCall, odd: list[RequestPartition]) -> Laid | None:
    """Return the response that refuses all batches by rule 1 of the module's docstring; None if no batch breaks that
    rule. Source: RequestUtils.flag."""
    for _, data in odd:
        records = data.records
        if records is None:
            continue
        size = _size_bytes(records)
        if isinstance(size, ErrorCode):
            return _refuse_all(call, size, _head_error(records))
        if size and records[MAGIC_AT] == MAGIC and records[ATTRIBUTES_AT] & TRANSACTIONAL:
            name = call.request.transactional_id
            if name is None or not broker.access.allows(call, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
                return _refuse_all(call, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return None
    return None


def _head_error(records: memoryview) -> str | None:
    """Return Kafka's error message for a batch that `_size_bytes` has refused: its length is too small, or its magic
    invalid. None if the batch was refused for a length above LENGTH_MAX, for which Kafka has no message."""
    length = int.from_bytes(records[LENGTH_AT:LENGTH_END], signed=True)
    if length < LENGTH_MIN:
        return f"Record size {length} is less than the minimum record overhead ({LENGTH_MIN})"
    magic = int.from_bytes(records[MAGIC_AT : MAGIC_AT + 1], signed=True)
    return None if 0 <= magic <= MAGIC else f"Invalid magic found in record: {magic}"


def _exists(broker: Broker, writable: Container[str], topic: TopicData, index: int) -> bool:
    """Whether the client may write to the topic, and the metadata image has the partition (rule 2 of the module's
    docstring)."""
    name = _name_of(broker, writable, topic)
    if isinstance(name, ErrorCode):
        return False
    return broker.partitions.look_up(name, index) is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _is_without_producer_id(records: memoryview | None, version: int) -> bool:
    """Whether these records break rule 4 of the module's docstring: Kafka fails to read a producer id from them, and
    therefore refuses the whole request."""
    batch = _one_batch(records, version)
    if isinstance(batch, ErrorCode):
        return batch is ErrorCode.UNKNOWN_SERVER_ERROR
    return len(batch) < PRODUCER_ID_END


def _transactional(
    broker: Broker, call: types.ProduceCall, writable: Container[str], known: list[RequestPartition]
) -> list[Transactional]:
    """Return the transactional batches for the partitions in `known` that pass rule 3 of the module's docstring."""
    return [
        (_name_of(broker, writable, topic), data.index, data.records, producer)
        for topic, data in known
        if (producer := transactional_producer(data.records)) is not None
        and producer.id >= 0
        and not isinstance(_one_batch(data.records, call.version), ErrorCode)
    ]


def _existing(broker: Broker, batches: list[Transactional]) -> list[tuple[Partition, Producer]]:
    """Return the partition and the producer of each of these batches whose partition this broker leads."""
    found = []
    for topic, index, _, producer in batches:
        partition = None if isinstance(topic, ErrorCode) else broker.partitions.get(topic, index)
        if partition is not None and partition.check_leader_epoch() is None:
            found.append((partition, producer))
    return found


async def _verify_and_append(
    broker: Broker,
    call: types.ProduceCall,
    writable: Container[str],
    waiting: list[tuple[Partition, Producer]],
    long: Batches,
) -> Laid | None:
    """Append after the transaction coordinator has verified or added the partitions in `waiting`, and threads have
    checked the batches in `long`. Return the response, None with acks=0."""
    refusals: Refusals = {}
    if waiting:
        transactional_id = call.request.transactional_id
        assert transactional_id is not None, "only transactional batches are verified"
        client = producing(call.version)
        wrong = await verify(broker.transactions, transactional_id, client, waiting)
        refusals = {place: verdict(code, client) for place, code in wrong.items()}
    answer = _append_all(broker, call, writable, refusals, await check_apart(long, call.now_ms))
    return await answer if isinstance(answer, Later) else answer


def _refuse_all(call: types.ProduceCall, code: ErrorCode, reason: str | None = None) -> Laid:
    """Return the response that refuses all batches with the error `code`. reason: the error message, None for none.
    Log the error, except for TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which Kafka does not log either. Raises HangUp,
    which closes the connection, with acks=0."""
    if code is not ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        log.error("Produce request of client %s refused: %s: %s", call.client_id, code.name, reason or NO_BATCH)
    if call.request.acks == NO_ACKS:
        raise HangUp(f"{code.name}: {REFUSED_WITHOUT_ACKS}")
    return lay_out(
        call.messages,
        call.header.correlation_id,
        [(_key_of(topic), _refused(topic, code, reason)) for topic in call.request.topic_data],
    )


def _refused(topic: TopicData, code: ErrorCode, reason: str | None) -> list[PartitionAnswer]:
    return [PartitionAnswer(data.index, code.value, error_message=reason) for data in topic.partition_data]


def _append_all(
    broker: Broker, call: types.ProduceCall, writable: Container[str], refusals: Refusals, checked: Checked
) -> Laid | Later | None:
    request = call.request
    waits: Waits = []
    failed = False
    answers: Answers = []
    for i, topic in enumerate(request.topic_data):
        name = _name_of(broker, writable, topic)
        partitions = []
        for j, data in enumerate(topic.partition_data):
            refusal = refusals.get(TopicPartition(name, data.index)) if refusals and isinstance(name, str) else None
            if refusal is None:
                answer = _append(broker, call, name, data, waits, checked.get((i, j)))
            else:
                answer = PartitionAnswer(data.index, refusal.code.value, error_message=refusal.reason)
            failed = failed or answer.error_code != 0
            partitions.append(answer)
        answers.append((_key_of(topic), partitions))
    if broker.quotas.is_active:
        call.throttle_ms = broker.quotas.produce_throttle_ms(call)
    if request.acks == NO_ACKS:
        if failed:
            raise HangUp(REFUSED_WITHOUT_ACKS)
        return None
    if waits:
        return _wait(broker, call, answers, waits)
    return _answer(broker, Reply.to(call), answers, failed=failed)


def _answer(broker: Broker, reply: Reply, answers: Answers, *, failed: bool) -> Laid:
    """Return the response. failed: whether any batch has an error; for batches with NOT_LEADER_OR_FOLLOWER the response
    names the current leader."""
    endpoints = NO_TAGS
    if failed and reply.messages.version >= LEADERS_VERSION:
        leaders = []
        for topic, partitions in answers:
            for each in partitions:
                if each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER.value:
                    leader = current_leader(broker.image, _topic_named(broker, topic), each.index)
                    each.leader = leader_field(leader)
                    leaders.append(leader)
        endpoints = endpoints_field(broker.image, reply.listener, leaders)
    return lay_out(reply.messages, reply.correlation_id, answers, endpoints)


def _topic_named(broker: Broker, topic: str | UUID) -> str:
    if isinstance(topic, str):
        return topic
    known = broker.image.topics_by_id.get(topic)
    return "" if known is None else known.name


def _wait(broker: Broker, call: types.ProduceCall, answers: Answers, waits: Waits) -> Later:
    """Return the response for later: it is sent when every batch in `waits` is committed or can no longer be committed,
    at the latest after the request's timeout."""
    timeout_s = max(call.request.timeout, 0) / 1000
    call.request = None  # type: ignore[assignment]  # the batches are in the log: drop the reference to their frame
    futures = [partition.wait_committed(offset, timeout_s) for _, partition, offset in waits]
    return Later(_all_of(futures), partial(_committed, broker, call, answers, waits, futures))


def _all_of(futures: list[asyncio.Future[ErrorCode]]) -> asyncio.Future[Any]:
    """Return a future that is done when the last of `futures`, one at least, is done."""
    if len(futures) == 1:
        return futures[0]
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
    broker: Broker,
    call: types.ProduceCall,
    answers: Answers,
    waits: Waits,
    futures: list[asyncio.Future[ErrorCode]],
    _: object,
) -> Laid:
    for (answer, _partition, _offset), future in zip(waits, futures, strict=True):
        code = future.result()
        if code != ErrorCode.NONE:
            answer.error_code = code.value
    failed = any(each.error_code for _, partitions in answers for each in partitions)
    return _answer(broker, Reply.to(call), answers, failed=failed)


def _key_of(topic: TopicData) -> str | UUID:
    """Return the name or the id by which the response refers to a topic."""
    return topic.name if isinstance(topic, TopicProduceData) else topic.topic_id or ZERO_ID


def _name_of(broker: Broker, writable: Container[str], topic: TopicData) -> str | ErrorCode:
    """Return the name of a topic that the request may write to, or the error for any other topic."""
    name = _known_name(broker, topic)
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return name if writable is EVERYTHING or name in writable else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _known_name(broker: Broker, topic: TopicData) -> str | None:
    """Return the name of a topic; None for an unknown id."""
    if isinstance(topic, TopicProduceData):
        return topic.name
    known = None if topic.topic_id is None else broker.image.topics_by_id.get(topic.topic_id)
    return None if known is None else known.name


def _counts(broker: Broker, topics: Iterable[TopicData]) -> Counter[str]:
    """Topic name -> how many of the request's partitions belong to the topic."""
    counts = Counter[str]()
    for topic in topics:
        counts[_known_name(broker, topic) or ""] += len(topic.partition_data)
    return counts


def _append(
    broker: Broker,
    call: types.ProduceCall,
    topic: str | ErrorCode,
    data: PartitionProduceData,
    waits: Waits,
    checked: CheckedBatch | AppendRefused | None,
) -> PartitionAnswer:
    """Append one batch, and return its result. A batch with acks=-1 that is not committed yet is added to `waits`.

    topic: the topic's name, or the error with which batches for the topic are refused. data: the request's part about
    the partition. checked: the checked batch, or the error with which it is refused, if a thread has checked it; None
    if the batch has yet to be checked.
    """
    index = data.index
    if isinstance(topic, ErrorCode):
        return PartitionAnswer(index, topic.value)
    partition = broker.partitions.look_up(topic, index)
    if partition == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return PartitionAnswer(index, partition.value)
    batch = _one_batch(data.records, call.version)
    if isinstance(batch, ErrorCode):
        return PartitionAnswer(index, batch.value)
    if call.request.acks not in (NO_ACKS, LEADER_ACKS, ALL_ACKS):
        return PartitionAnswer(index, ErrorCode.INVALID_REQUIRED_ACKS.value)
    if topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
        return PartitionAnswer(index, ErrorCode.INVALID_TOPIC_EXCEPTION.value)
    if isinstance(partition, ErrorCode):
        return PartitionAnswer(index, partition.value)
    code = partition.check_leader_epoch()
    if code is not None:
        return PartitionAnswer(index, code.value)
    try:
        opened = partition.log
        if call.request.acks == ALL_ACKS and partition.lacks_replicas:
            return PartitionAnswer(index, ErrorCode.NOT_ENOUGH_REPLICAS.value, log_start_offset=opened.log_start_offset)
        if isinstance(checked, AppendRefused):
            return _refusal(call, topic, index, checked, opened.log_start_offset)
        done = partition.append_as_leader(batch, call.now_ms, checked=checked)
    except AppendRefused as refused:
        return _refusal(call, topic, index, refused, opened.log_start_offset)
    except (OSError, LogFailed) as failure:
        partition.failed(failure)
        return PartitionAnswer(index, ErrorCode.KAFKA_STORAGE_ERROR.value)
    if topic not in INTERNAL_TOPICS:
        partition.open_lane(broker.lanes)
    answer = PartitionAnswer(index, 0, done.first_offset, done.log_append_time, done.log_start_offset)
    if opened.high_watermark <= done.last_offset and call.request.acks == ALL_ACKS:
        waits.append((answer, partition, done.last_offset + 1))
    return answer


def _refusal(
    call: types.ProduceCall, topic: str, index: int, refused: AppendRefused, log_start_offset: int
) -> PartitionAnswer:
    """Return the result of a batch that the log refuses, and log the refusal unless its error is one of
    COMMON_REFUSALS. Like Kafka, give an error message only if records are invalid (here also if one lacks a registered
    schema), and name the partition in a record's error only if the record's key is missing. Source:
    ReplicaManager.appendRecordsToLeader."""
    error, records = refused.error, refused.records
    if error not in COMMON_REFUSALS:
        level = logging.INFO if error is ErrorCode.INVALID_PRODUCER_EPOCH else logging.ERROR
        text = "batch of client %s refused by %s-%d: %s: %s"
        log.log(level, text, call.client_id, topic, index, error.name, refused.reason)
    start = -1 if error in COMMON_REFUSALS else log_start_offset
    if isinstance(refused, UnregisteredSchema):
        return PartitionAnswer(index, error.value, log_start_offset=start, error_message=refused.reason)
    if records is None:
        return PartitionAnswer(index, error.value, log_start_offset=start)
    records.no_key = f"{NO_KEY} in topic partition {topic}-{index}"
    return PartitionAnswer(index, error.value, -1, -1, start, records, refused_reason(records))


def _one_batch(records: memoryview | None, version: int) -> memoryview | ErrorCode:
    """Return the one batch in the records for a partition, without the bytes of an incomplete second batch; or the
    error of rule 3 of the module's docstring, or UNKNOWN_SERVER_ERROR if the size of a second batch exceeds an int32.
    Source: ProduceRequest.validateRecords, ByteBufferLogInputStream."""
    if records is not None and len(records) >= BATCH_HEAD.size:
        length, magic, attributes = BATCH_HEAD.unpack_from(records)
        if LENGTH_MIN <= length == len(records) - LENGTH_END and magic == MAGIC and attributes & CODEC_MASK != ZSTD:
            return records
    size = 0 if records is None else _size_bytes(records)
    if isinstance(size, ErrorCode):
        return size
    if records is None or not size or records[MAGIC_AT] != MAGIC:
        return ErrorCode.INVALID_RECORD
    if records[ATTRIBUTES_AT] & CODEC_MASK == ZSTD and version < ZSTD_VERSION:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if size == len(records):
        return records
    second = _size_bytes(records[size:])
    if isinstance(second, ErrorCode):
        return second
    return ErrorCode.INVALID_RECORD if second else records[:size]


def _size_bytes(data: memoryview) -> int | ErrorCode:
    """Return the size in bytes of the batch at the beginning of the data; 0 if the data ends before the batch does,
    CORRUPT_MESSAGE if its length or magic is invalid, UNKNOWN_SERVER_ERROR if the size exceeds an int32.
    Source: ByteBufferLogInputStream."""
    if len(data) < LENGTH_END:
        return 0
    length = int.from_bytes(data[LENGTH_AT:LENGTH_END], signed=True)
    if length < LENGTH_MIN:
        return ErrorCode.CORRUPT_MESSAGE
    if len(data) <= MAGIC_AT:
        return 0
    if data[MAGIC_AT] > MAGIC:
        return ErrorCode.CORRUPT_MESSAGE
    if length > LENGTH_MAX:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    size = LENGTH_END + length
    return size if size <= len(data) else 0
