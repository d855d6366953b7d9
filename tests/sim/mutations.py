"""Would the simulation notice? Checks are taken out of the code, one at a time, and seeds are run until one fails.

    python -m tests.sim.mutations [SEEDS]     every mutation: after how many seeds it is found, or that it is not

Each names a function, a piece of its source, and what stands there instead: the function's code is exchanged as long as
the mutation lasts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent
from types import FunctionType

from tests.sim.run import simulate

SEEDS = 1_000


@dataclass(frozen=True, slots=True)
class Mutation:
    """See above. function: module:name, or module:Class.name."""

    what: str
    function: str
    old: str
    new: str

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The code is like that meanwhile."""
        module_name, _, path = self.function.partition(":")
        module = import_module(module_name)
        owner = module
        *classes, name = path.split(".")
        for each in classes:
            owner = getattr(owner, each)
        function = _function(getattr(owner, name))
        assert isinstance(function, FunctionType), self.function
        source = dedent(inspect.getsource(function))
        assert source.count(self.old) == 1, f"{self.function} has not {self.old!r} once"
        namespace = dict(vars(module))
        mutant = "from __future__ import annotations\n" + source.replace(self.old, self.new)
        exec(compile(mutant, name, "exec"), namespace)
        other = _function(namespace[name])
        assert isinstance(other, FunctionType), self.function
        code, function.__code__ = function.__code__, other.__code__
        try:
            yield
        finally:
            function.__code__ = code


def _function(found: object) -> object:
    """The function behind a property."""
    return found.fget if isinstance(found, property) else found


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
        "self._hear(ending, place, ErrorCode.none, marker)",
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
        "kcli.log.producer_check:_check_epoch",
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
        "kcli.log.producer_check:_check_sequence",
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
        "kcli.broker.coordinators.markers:Markers._hear",
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


def found_after(mutation: Mutation, seeds: range) -> tuple[int, Exception] | None:
    """The first seed that fails, and how; None: all hold."""
    with mutation.applied():
        for seed in seeds:
            error = simulate(seed)
            if error is not None:
                return seed, error
    return None


def main() -> int:
    """Returns how many mutations are not found."""
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
    missed = 0
    for mutation in MUTATIONS:
        found = found_after(mutation, seeds)
        if found is None:
            missed += 1
            print(f"NOT FOUND with {len(seeds)} seeds: {mutation.what}", flush=True)
        else:
            print(f"seed {found[0]}: {mutation.what}\n    {found[1]!r:.160}", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
