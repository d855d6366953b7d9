"""DescribeCluster (60), versions 0 to 2. Made by make_types.py, for mypy alone."""

import datetime as dt
from dataclasses import dataclass
from typing import Literal, overload

from kcli.broker.wire.call import Call
from kcli.protocol.error_code import ErrorCode

@dataclass(frozen=True)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool
    endpoint_type: int  # versions 1 to 2
    include_fenced_brokers: bool  # version 2

@dataclass(frozen=True)
class DescribeClusterBroker:
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool  # version 2

@dataclass(frozen=True)
class DescribeClusterResponse:
    throttle_time: dt.timedelta
    error_code: ErrorCode
    error_message: str | None
    endpoint_type: int  # versions 1 to 2
    cluster_id: str
    controller_id: int
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: int

class DescribeClusterCall(Call):
    request: DescribeClusterRequest
    @overload
    def get(self, name: Literal["endpoint_type"], default: int) -> int: ...
    @overload
    def get(self, name: Literal["endpoint_type"], default: None) -> int | None: ...
    @overload
    def get(self, name: Literal["include_fenced_brokers"], default: bool) -> bool: ...
    @overload
    def get(self, name: Literal["include_fenced_brokers"], default: None) -> bool | None: ...
    def new(
        self,
        _struct: Literal["DescribeClusterBroker"],
        /,
        *,
        broker_id: int,
        host: str,
        port: int,
        rack: str | None = ...,
        is_fenced: bool = ...,
    ) -> DescribeClusterBroker: ...
    @overload
    def has(self, name: Literal["DescribeClusterBroker"], field: Literal["is_fenced"]) -> bool: ...
    @overload
    def has(self, name: Literal["DescribeClusterResponse"], field: Literal["endpoint_type"]) -> bool: ...
    def respond(
        self,
        *,
        throttle_time: dt.timedelta = ...,
        error_code: ErrorCode,
        error_message: str | None = ...,
        endpoint_type: int = ...,
        cluster_id: str,
        controller_id: int = ...,
        brokers: tuple[DescribeClusterBroker, ...],
        cluster_authorized_operations: int = ...,
    ) -> DescribeClusterResponse: ...
