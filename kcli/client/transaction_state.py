"""DescribeTransactions' response as kio defines it, except that transaction_start_time is an integer.

transaction_start_time is -1 if no transaction is open, and kio's own type refuses times before 1970. kio evaluates
the fields' annotations: this module has no `from __future__ import annotations`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kcli.protocol.kio_serial import KioErrorCode

# isort: split
from kio.schema.describe_transactions.v0 import response as described
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """The state of a transactional id. transaction_timeout: in ms; transaction_start_time: in epoch ms, -1 if no
    transaction is open."""

    __type__: ClassVar = described.TransactionState.__type__
    __version__: ClassVar = described.TransactionState.__version__
    __flexible__: ClassVar = described.TransactionState.__flexible__
    __api_key__: ClassVar = described.TransactionState.__api_key__
    __header_schema__: ClassVar = described.TransactionState.__header_schema__
    error_code: KioErrorCode = field(metadata={"kafka_type": "error_code"})
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    transaction_state: str = field(metadata={"kafka_type": "string"})
    transaction_timeout: i32 = field(metadata={"kafka_type": "int32"})
    transaction_start_time: i64 = field(metadata={"kafka_type": "int64"})
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    topics: tuple[described.TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """DescribeTransactions' response, version 0."""

    __type__: ClassVar = described.DescribeTransactionsResponse.__type__
    __version__: ClassVar = described.DescribeTransactionsResponse.__version__
    __flexible__: ClassVar = described.DescribeTransactionsResponse.__flexible__
    __api_key__: ClassVar = described.DescribeTransactionsResponse.__api_key__
    __header_schema__: ClassVar = described.DescribeTransactionsResponse.__header_schema__
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_states: tuple[TransactionState, ...]
