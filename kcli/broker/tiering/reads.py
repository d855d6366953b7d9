"""The values that a Fetch passes to the reader of tiered storage, and gets from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from formats.txn_index import AbortedTxn


class Wanted(NamedTuple):
    """The batches that a Fetch asks for: whole batches from the one that contains `offset` on, of at most max_bytes
    together; with min_one_batch the first batch is returned even if it is larger. with_aborted: whether aborted
    transactions are needed, for read_committed."""

    offset: int
    max_bytes: int
    min_one_batch: bool
    with_aborted: bool


class RemoteRead(NamedTuple):
    """Whole batches; no bytes if the first batch is larger than the limit. aborted: the aborted transactions that have
    records in the batches."""

    records: memoryview
    aborted: tuple[AbortedTxn, ...] = ()
