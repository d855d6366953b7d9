"""Checks of the coordinators and their logs that the simulation would miss (see mutation.py).

python -m tests.sim.mutations [SEEDS]     every mutation: after how many seeds it is found, or that it is not
"""

from __future__ import annotations

import sys

from tests.sim.mutation import Mutation, report
from tests.sim.run import simulate

SEEDS = 1_000

UNCOMMITTED = Mutation(
    "answers come before what they tell is committed",
    "kcli.broker.coordinators.uncommitted:Uncommitted.must_wait",
    "log.high_watermark < log.log_end_offset",
    "False",
)
GENERATION = Mutation(
    "no generation is checked",
    "kcli.group.classic.group:ClassicGroup.check_generation",
    "if generation != self.generation:",
    "if False:",
)
FENCING = Mutation(
    "no producer is fenced as it ends its transaction",
    "kcli.txn.ending:_check",
    "if epoch != was_epoch and not (is_complete and again):",
    "if False:",
)
MUTATIONS = [
    GENERATION,
    FENCING,
    UNCOMMITTED,
    Mutation(
        "only what is written waits until it is committed",
        "kcli.broker.coordinators.runtime:Coordinator._do",
        "if uncommitted.must_wait:",
        "if uncommitted.must_wait and outcome.batches:",
    ),
    Mutation(
        "machines outlive the lead of their partitions",
        "kcli.broker.coordinators.runtime:_is_same",
        "and shard.number in led",
        "",
    ),
    Mutation(
        "markers count before they are committed",
        "kcli.broker.coordinators.markers:Markers._write",
        "code.add_done_callback(lambda done: self._is_committed(ending, place, done, marker))",
        "self._handle_result(ending, place, ErrorCode.NONE, marker)",
    ),
    Mutation(
        "no generation is checked as members commit",
        "kcli.group.classic.group:ClassicGroup.check_commit",
        "self.check_generation(request.generation)",
        "pass",
    ),
    Mutation(
        "no generation is checked as members ask for their assignment",
        "kcli.group.classic.sync:_checked",
        "group.check_generation(request.generation)",
        "pass",
    ),
    Mutation(
        "no generation is checked of classic members in consumer groups",
        "kcli.group.consumer.classic_members:_member",
        "if generation != member.epoch:",
        "if False:",
    ),
    Mutation(
        "groups that are upgraded forget what their members have",
        "kcli.group.consumer.upgrade:_member",
        "assigned=with_epoch(assigned, generation),",
        "",
    ),
    Mutation(
        "groups that are downgraded do not rebalance",
        "kcli.group.consumer.downgrade:downgrade",
        "if must_rebalance:",
        "if False:",
    ),
    Mutation(
        "members are given what others have not given up",
        "kcli.group.consumer.reconcile:Step._is_free",
        "return",
        "return True or",
    ),
    Mutation(
        "members of consumer groups commit at any epoch",
        "kcli.group.consumer.group:ConsumerGroup.check_commit",
        "if is_stale:",
        "if False:",
    ),
    Mutation(
        "older producers are not fenced as they end their transactions",
        "kcli.txn.ending:_check_old",
        "if transaction.producer_epoch != request.producer_epoch:",
        "if False:",
    ),
    Mutation(
        "no producer is fenced as it adds partitions",
        "kcli.txn.partitions:_check_producer",
        "if transaction.producer_epoch != epoch:",
        "if False:",
    ),
    Mutation(
        "no producer is fenced by a partition's log",
        "kcli.log.live.producer_check:_check_epoch",
        "if row.producer_epoch < entry.producer_epoch:",
        "if False:",
    ),
    Mutation(
        "a producer that says who it was is not fenced",
        "kcli.txn.producer:_begun",
        "raise Refused(ErrorCode.PRODUCER_FENCED)",
        "return transaction.with_epoch(epoch, transaction.last_producer_epoch, timeout_ms, turn.now_ms)",
    ),
    Mutation(
        "sequences are not checked",
        "kcli.log.live.producer_check:_check_sequence",
        "if row.base_sequence != expected:",
        "if False:",
    ),
    Mutation(
        "nobody asks the transaction's coordinator",
        "kcli.broker.coordinators.transaction_check:unverified",
        "if not _is_open(partition, producer)",
        "if False",
    ),
    Mutation(
        "a transaction is complete before its markers are written",
        "kcli.broker.coordinators.markers:Markers._handle_result",
        "self._try_again(ending, place)",
        "ending.left.discard(place)",
    ),
    Mutation(
        "what was decided before a crash is not gone on with",
        "kcli.txn.machine:TransactionMachine.loaded",
        "if transaction.state.is_prepared:",
        "if False:",
    ),
    Mutation(
        "transactions that are open for too long stay open",
        "kcli.txn.machine:TransactionMachine.tick",
        "self._abort_timed_out(turn)",
        "pass",
    ),
    Mutation(
        "offsets of transactions count at once",
        "kcli.group.machine:GroupMachine._replay_commit",
        "self._shard.committed.replay(group_id, partition, offset, producer_id)",
        "self._shard.committed.replay(group_id, partition, offset, -1)",
    ),
    Mutation(
        "offsets of aborted transactions count",
        "kcli.group.committed:Committed.end_transaction",
        "if commit:",
        "if True:",
    ),
    Mutation(
        "offsets are given out while a transaction may change them",
        "kcli.group.offsets:_fetched",
        "if request.require_stable and",
        "if False and",
    ),
    Mutation(
        "markers are not replayed",
        "kcli.broker.coordinators.runtime:_replay",
        "machine.replay_marker(batch.producer_id, batch.producer_epoch, commit=batch.commits)",
        "pass",
    ),
    Mutation(
        "sessions do not end",
        "kcli.group.classic.rebalance:_session_over",
        "if group is None:",
        "if True:",
    ),
    Mutation(
        "sessions do not begin when a group is loaded",
        "kcli.group.machine:GroupMachine.loaded",
        "extend_session(turn, group, member)",
        "pass",
    ),
    Mutation(
        "answers come before what they tell is written",
        "kcli.broker.coordinators.runtime:Coordinator._append",
        "appended = partition.append_as_leader(data, now_ms, origin=Origin.COORDINATOR)",
        "import types; appended = types.SimpleNamespace(first_offset=partition.log.log_end_offset)",
    ),
]


if __name__ == "__main__":
    sys.exit(report(MUTATIONS, simulate, SEEDS))
