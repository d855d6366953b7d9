"""Rules of raft, each of which the simulation must miss when it is removed (see tests/sim/mutation.py).

python -m tests.raft.sim.mutations [SEEDS]
"""

from __future__ import annotations

import sys

from tests.raft.sim.run import simulate
from tests.sim.mutation import Mutation, report

SEEDS = 200

VOTE_ONCE = Mutation(
    "a voter votes for whoever asks",
    "kcli.raft.election:may_vote",
    "if election.voted is not None:",
    "if False:",
)
FENCING = Mutation(
    "requests of old leaders and candidates are followed",
    "kcli.raft.votes:refuse_voter",
    "if epoch < core.state.epoch:",
    "if False:",
)
TRUNCATION = Mutation(
    "a follower keeps what the leader does not have",
    "kcli.raft.fetching:_truncate",
    "offset = truncation_offset(core.log, diverging)",
    "return",
)
FLUSH = Mutation(
    "a voter fetches from where its disk is not yet",
    "kcli.raft.core:Core.must_flush",
    "return",
    "return False and",
)
QUICK = [VOTE_ONCE, FENCING, TRUNCATION, FLUSH]
MUTATIONS = [
    VOTE_ONCE,
    FENCING,
    TRUNCATION,
    FLUSH,
    Mutation(
        "quorum-state is not written",
        "kcli.raft.core:Core._save",
        "if election != self._saved:",
        "if False:",
    ),
    Mutation(
        "a vote is given to who is behind",
        "kcli.raft.votes:_vote",
        "up_to_date = last.order >= core.log_end.order",
        "up_to_date = True",
    ),
    Mutation(
        "who has less of an epoch counts as up to date",
        "kcli.raft.votes:_vote",
        "up_to_date = last.order >= core.log_end.order",
        "up_to_date = last.epoch >= core.log_end.epoch",
    ),
    Mutation(
        "a leader counts what it has not flushed",
        "kcli.raft.core:Core.appended",
        "if leader.move_high_watermark():",
        "if leader.flushed(self.log.end_offset):",
    ),
    Mutation(
        "what one voter has is committed",
        "kcli.raft.states.leader:Leader.move_high_watermark",
        "offset = offsets[(len(offsets) - 1) // 2]",
        "offset = offsets[-1]",
    ),
    Mutation(
        "half of the voters elect",
        "kcli.raft.election:Votes._majority",
        "return len(self._votes) // 2 + 1",
        "return max(1, len(self._votes) // 2)",
    ),
    Mutation(
        "an epoch is not checked before records are sent",
        "kcli.raft.serving:_try",
        "validity, where = validate(core.log, *end)",
        "validity, where = Validity.VALID, end",
    ),
]


if __name__ == "__main__":
    sys.exit(report(MUTATIONS, simulate, SEEDS))
