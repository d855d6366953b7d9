"""WriteTxnMarkers (27), versions 1 to 2. Made by make_types.py, for mypy alone."""

from dataclasses import dataclass
from typing import Literal, Never, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class WritableTxnMarkerTopic:
    name: str
    partition_indexes: tuple[int, ...]

@dataclass(frozen=True)
class WritableTxnMarker:
    producer_id: int
    producer_epoch: int
    transaction_result: bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int  # version 2

@dataclass(frozen=True)
class WriteTxnMarkersRequest:
    markers: tuple[WritableTxnMarker, ...]

@dataclass(frozen=True)
class WritableTxnMarkerPartitionResult:
    partition_index: int
    error_code: ErrorCode

@dataclass(frozen=True)
class WritableTxnMarkerTopicResult:
    name: str
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]

@dataclass(frozen=True)
class WritableTxnMarkerResult:
    producer_id: int
    topics: tuple[WritableTxnMarkerTopicResult, ...]

@dataclass(frozen=True)
class WriteTxnMarkersResponse:
    markers: tuple[WritableTxnMarkerResult, ...]

class WriteTxnMarkersCall(Call):
    request: WriteTxnMarkersRequest
    def get(self, name: Never, default: Never) -> Never: ...
    @overload
    def new(
        self,
        _struct: Literal["WritableTxnMarkerPartitionResult"],
        /,
        *,
        partition_index: int,
        error_code: ErrorCode,
    ) -> WritableTxnMarkerPartitionResult: ...
    @overload
    def new(
        self,
        _struct: Literal["WritableTxnMarkerTopicResult"],
        /,
        *,
        name: str,
        partitions: tuple[WritableTxnMarkerPartitionResult, ...],
    ) -> WritableTxnMarkerTopicResult: ...
    @overload
    def new(
        self,
        _struct: Literal["WritableTxnMarkerResult"],
        /,
        *,
        producer_id: int,
        topics: tuple[WritableTxnMarkerTopicResult, ...],
    ) -> WritableTxnMarkerResult: ...
    def has(self, name: Never, field: Never) -> Never: ...
    def respond(self, *, markers: tuple[WritableTxnMarkerResult, ...]) -> WriteTxnMarkersResponse: ...
