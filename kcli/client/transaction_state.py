"""DescribeTransactions' answer as kio has it, but for the start, which is a number.

It is -1 where no transaction has begun, and kio reads no time before 1970. kio looks at the types of fields: no
annotations of the future here.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.describe_transactions.v0 import response as described
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TransactionalId
from kio.static.primitive import i16, i32, i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionState:
    """A transactional id. transaction_timeout and -start_time in ms."""

    __type__: ClassVar = described.TransactionState.__type__
    __version__: ClassVar = described.TransactionState.__version__
    __flexible__: ClassVar = described.TransactionState.__flexible__
    __api_key__: ClassVar = described.TransactionState.__api_key__
    __header_schema__: ClassVar = described.TransactionState.__header_schema__
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
    transactional_id: TransactionalId = field(metadata={"kafka_type": "string"})
    transaction_state: str = field(metadata={"kafka_type": "string"})
    transaction_timeout: i32 = field(metadata={"kafka_type": "int32"})
    transaction_start_time: i64 = field(metadata={"kafka_type": "int64"})
    producer_id: ProducerId = field(metadata={"kafka_type": "int64"})
    producer_epoch: i16 = field(metadata={"kafka_type": "int16"})
    topics: tuple[described.TopicData, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """The answer."""

    __type__: ClassVar = described.DescribeTransactionsResponse.__type__
    __version__: ClassVar = described.DescribeTransactionsResponse.__version__
    __flexible__: ClassVar = described.DescribeTransactionsResponse.__flexible__
    __api_key__: ClassVar = described.DescribeTransactionsResponse.__api_key__
    __header_schema__: ClassVar = described.DescribeTransactionsResponse.__header_schema__
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
    transaction_states: tuple[TransactionState, ...]
