"""Computes the offset at which a follower truncates its log if it diverges from the leader's log. This module does no
I/O. Source: AbstractFetcherThread; KIP-279."""

from __future__ import annotations

UNKNOWN = -1


def truncation(leader: tuple[int, int], own: tuple[int, int], log_end: int) -> int:
    """Return the offset at which the follower's log is to be truncated: the smallest of the follower's log end offset
    and the end offsets in `leader` and `own`, with two exceptions. If the end offset in `own` is -1, it does not count.
    If the epochs in `leader` and `own` differ, the end offset in `leader` does not count: the follower's log is
    truncated at the end offset in `own`, and the next Fetch compares the logs again (KIP-279).

    leader: the leader's largest epoch that is at most the follower's last epoch, and the end offset of that epoch.
    own: the follower's largest epoch that is at most the epoch in `leader`, and the end offset of that epoch in the
    follower's log; both are -1 if there is no such epoch.
    log_end: the follower's log end offset.
    """
    leader_epoch, leader_end = leader
    own_epoch, own_end = own
    if own_end == UNKNOWN:
        return min(leader_end, log_end)
    if own_epoch != leader_epoch:
        return min(own_end, log_end)
    return min(own_end, leader_end, log_end)
