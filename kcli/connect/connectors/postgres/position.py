"""Where the PostgreSQL source goes on: its offset, as Debezium's connector has it.

    lsn, txId, ts_usec      of the last change: its place in the server's log, its transaction, when it was committed
    lsn_proc                the same place
    lsn_commit              the LSN behind the last transaction that is complete
    lsn_events_processed    of a transaction that is not complete: how many of its changes at `lsn` are done
    snapshot, last_snapshot_record, snapshot_completed    of rows of the snapshot, whose point of the log is `lsn`

A transaction whose commit lies before lsn_commit is complete; of the one with txId the changes up to `lsn` are done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcli.connect.plugins import Offset

NUMBERS = ("lsn", "lsn_proc", "lsn_commit", "txId", "ts_usec", "lsn_events_processed")


@dataclass(frozen=True)
class Position:
    """A position. committed: lsn_commit; None before there is one. run: which start of the connector had the snapshot
    (snapshot.mode=always)."""

    committed: int | None = None
    lsn: int = 0
    done: int = 0
    transaction: int | None = None
    time_us: int = 0
    in_snapshot: bool = False
    run: str | None = None

    @classmethod
    def of(cls, offset: Offset) -> Position:
        """Return the position of an offset."""
        is_complete = offset.get("snapshot_completed") or offset.get("last_snapshot_record")
        return cls(
            offset.get("lsn_commit", offset.get("lsn_proc", offset.get("lsn"))),
            offset.get("lsn", 0),
            offset.get("lsn_events_processed", 0),
            offset.get("txId"),
            offset.get("ts_usec", 0),
            bool(offset.get("snapshot")) and not is_complete,
            offset.get("run"),
        )

    def offset(self) -> dict[str, object]:
        """Return the offset of a change, or of a transaction that is complete."""
        found: dict[str, object] = {"lsn": self.lsn, "lsn_proc": self.lsn, "ts_usec": self.time_us}
        if self.committed is not None:
            found["lsn_commit"] = self.committed
        if self.transaction is not None:
            found["txId"] = self.transaction
        if self.done:
            found["lsn_events_processed"] = self.done
        return found | self._run()

    def snapshot_offset(self, *, is_last: bool) -> dict[str, object]:
        """Return the offset of a row of the snapshot."""
        found: dict[str, object] = {"lsn": self.lsn, "ts_usec": self.time_us, "snapshot": "INITIAL"}
        if self.transaction is not None:
            found["txId"] = self.transaction
        return found | {"last_snapshot_record": is_last, "snapshot_completed": is_last} | self._run()

    def complete_to(self, lsn: int) -> Position:
        """Return the position behind all transactions that were committed before an LSN."""
        return replace(self, committed=max(lsn, self.committed or 0), done=0)

    def _run(self) -> dict[str, object]:
        return {} if self.run is None else {"run": self.run}


def offset_error(offset: Offset) -> str | None:
    """Return what is wrong with an offset that a user has given."""
    wrong = [name for name in NUMBERS if name in offset and type(offset[name]) is not int]
    if wrong:
        return f"{wrong[0]} is no whole number"
    return None if "lsn" in offset else "lsn is missing"
