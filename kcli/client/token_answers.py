"""The responses of CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken as kio defines them, except
that times are integers, in ms since 1970.

The times are -1 in a response with an error, and kio's own type refuses times before 1970 and after the year 9999. kio
evaluates the fields' annotations: this module has no `from __future__ import annotations`.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kcli.protocol.kio_serial import KioErrorCode

# isort: split
from kio.schema.create_delegation_token.v3 import response as created
from kio.schema.expire_delegation_token.v2 import response as expired
from kio.schema.renew_delegation_token.v2 import response as renewed
from kio.static.primitive import i32Timedelta, i64


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDelegationTokenResponse:
    """CreateDelegationToken's response, version 3."""

    __type__: ClassVar = created.CreateDelegationTokenResponse.__type__
    __version__: ClassVar = created.CreateDelegationTokenResponse.__version__
    __flexible__: ClassVar = created.CreateDelegationTokenResponse.__flexible__
    __api_key__: ClassVar = created.CreateDelegationTokenResponse.__api_key__
    __header_schema__: ClassVar = created.CreateDelegationTokenResponse.__header_schema__
    error_code: KioErrorCode = field(metadata={"kafka_type": "error_code"})
    principal_type: str = field(metadata={"kafka_type": "string"})
    principal_name: str = field(metadata={"kafka_type": "string"})
    token_requester_principal_type: str = field(metadata={"kafka_type": "string"})
    token_requester_principal_name: str = field(metadata={"kafka_type": "string"})
    issue_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    expiry_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    max_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    token_id: str = field(metadata={"kafka_type": "string"})
    hmac: bytes = field(metadata={"kafka_type": "bytes"})
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewDelegationTokenResponse:
    """RenewDelegationToken's response, version 2."""

    __type__: ClassVar = renewed.RenewDelegationTokenResponse.__type__
    __version__: ClassVar = renewed.RenewDelegationTokenResponse.__version__
    __flexible__: ClassVar = renewed.RenewDelegationTokenResponse.__flexible__
    __api_key__: ClassVar = renewed.RenewDelegationTokenResponse.__api_key__
    __header_schema__: ClassVar = renewed.RenewDelegationTokenResponse.__header_schema__
    error_code: KioErrorCode = field(metadata={"kafka_type": "error_code"})
    expiry_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireDelegationTokenResponse:
    """ExpireDelegationToken's response, version 2."""

    __type__: ClassVar = expired.ExpireDelegationTokenResponse.__type__
    __version__: ClassVar = expired.ExpireDelegationTokenResponse.__version__
    __flexible__: ClassVar = expired.ExpireDelegationTokenResponse.__flexible__
    __api_key__: ClassVar = expired.ExpireDelegationTokenResponse.__api_key__
    __header_schema__: ClassVar = expired.ExpireDelegationTokenResponse.__header_schema__
    error_code: KioErrorCode = field(metadata={"kafka_type": "error_code"})
    expiry_timestamp: i64 = field(metadata={"kafka_type": "int64"})
    throttle_time: i32Timedelta = field(metadata={"kafka_type": "timedelta_i32"})
