"""KRaft: how the voters of the metadata log agree on its leader and its records. No I/O, no clock, no asyncio.

`Raft` (kcli.raft.raft) hears of requests, of answers, of time and of flushes, and says whom to answer what and what to
send. It reads and changes the log and quorum-state through two small protocols (kcli.raft.log). A node is in one state,
each of which has its module, with what it keeps and what it does when time passes:

    Unattached    knows of no leader of its epoch; asks anybody for one with Fetch. May have voted
      -> Unattached    a higher epoch, or a vote given in this one
      -> Prospective   a voter's election timeout is over
      -> Follower      heard of the leader of this epoch or a higher one
    Prospective   asks the voters whether it could win, without a new epoch (pre-vote, KIP-996). May have voted
      -> Unattached    a higher epoch; or lost, or timed out, and the leader is not known
      -> Prospective   a vote given in this epoch
      -> Candidate     a majority would vote for it, or one voter does not know of pre-vote
      -> Follower      heard of a leader; or lost, or timed out, and the last leader is known
    Candidate     has voted for itself in a new epoch and asks for votes
      -> Unattached    a higher epoch
      -> Prospective   the election timeout is over
      -> Leader        a majority has voted for it
      -> Follower      heard of the leader of this epoch or a higher one
    Leader        begins its epoch with a LeaderChange record, answers Fetch, moves the high watermark
      -> Unattached    a higher epoch
      -> Resigned      shutting down; not fetched from by a majority for 1.5 fetch timeouts; not a voter any more
      -> Follower      a higher epoch and its leader
    Resigned      was the leader of this epoch (also: before a restart); tells the voters with EndQuorumEpoch
      -> Unattached    a higher epoch; or its election timeout is over, then the next one
      -> Follower      a higher epoch and its leader
    Follower      fetches from the leader
      -> Unattached    a higher epoch
      -> Prospective   a voter's fetch timeout is over
      -> Follower      a higher epoch and its leader; or more endpoints of the same one

An observer, who is none of the voters, is only ever Unattached or Follower (Resigned or Leader, if it was a voter until
just now). The voters are those of controller.quorum.voters while kraft.version is 0 (static), else those of the last
VotersRecord, committed or not (dynamic, KIP-853).

Before anything is said because of a new epoch, vote or leader, quorum-state has it. Source: KafkaRaftClient,
QuorumState, LeaderState of Kafka 4.3; KIP-595, KIP-630, KIP-853, KIP-996, KIP-1186.
"""
