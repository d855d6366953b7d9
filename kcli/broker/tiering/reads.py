"""What a Fetch wants of tiered storage, and what it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from formats.txn_index import AbortedTxn


class Wanted(NamedTuple):
    """Whole batches from the one with `offset` on, of at most max_bytes in all; with min_one_batch the first one is
    returned even if it is larger. with_aborted: for read_committed."""

    offset: int
    max_bytes: int
    min_one_batch: bool
    with_aborted: bool


class RemoteRead(NamedTuple):
    """Whole batches; of no bytes if the first one is larger than the limit. aborted: the aborted transactions among
    them."""

    records: memoryview
    aborted: tuple[AbortedTxn, ...] = ()
