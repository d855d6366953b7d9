"""KRaft: how the voters of the metadata log agree on its leader and its records. No I/O, no clock, no asyncio.

`Raft` (kcli.raft.raft) is called with requests, answers, the time and flushes, and returns what to answer and what to
send. It reads and changes the log and quorum-state through two small protocols. Read in this order:

    raft        one node of the quorum, as its broker or controller calls it
    states/     the fields of each state; a state has no reference to the node
    core        the node: its state, log, voters and connections; the changes of state
    polling     what is due in each state as time passes
    votes       Vote, BeginQuorumEpoch, EndQuorumEpoch     serving     Fetch, FetchSnapshot: the leader's side
    membership  AddRaftVoter and its like                  fetching    Fetch, FetchSnapshot: a follower's side
    outgoing    sending to a voter or to any bootstrap server, when `connections` allows it
    election    epochs, votes and their majority           controls    voters, kraft.version at each offset of the log
    log         the log and quorum-state as protocols      voters, messages, config, errors: values

A node is in one state. Under each state are the next states, and what leads to them; "this epoch" is the node's:

    Unattached    knows no leader of its epoch; learns one by Fetch from any bootstrap server. May have voted
      -> Unattached    a higher epoch; or the node has voted in this epoch
      -> Prospective   a voter's election timeout is over
      -> Follower      learned the leader of this epoch or a higher one
    Prospective   requests pre-votes: whether it could win an election, without a new epoch (KIP-996). May have voted
      -> Unattached    a higher epoch; or pre-vote lost or timed out, and no former leader is known
      -> Prospective   the node has voted in this epoch
      -> Candidate     a majority would vote for it, or one voter does not support pre-votes
      -> Follower      learned the leader; or pre-vote lost or timed out, and the former leader is known
    Candidate     has voted for itself in a new epoch and requests votes
      -> Unattached    a higher epoch
      -> Prospective   the election timeout is over
      -> Leader        a majority has voted for it
      -> Follower      learned the leader of this epoch or a higher one
    Leader        begins its epoch with a LeaderChange record, answers Fetch, moves the high watermark
      -> Unattached    a higher epoch
      -> Resigned      shutting down; or no Fetch from a majority for 1.5 fetch timeouts; or no longer a voter
      -> Follower      a higher epoch and its leader
    Resigned      was the leader of this epoch, perhaps before a restart; sends EndQuorumEpoch to the voters
      -> Unattached    a higher epoch; or, after its election timeout, the next epoch
      -> Follower      a higher epoch and its leader
    Follower      fetches from the leader
      -> Unattached    a higher epoch
      -> Prospective   a voter's fetch timeout is over
      -> Follower      a higher epoch and its leader; or more endpoints of the same leader

An observer, which is no voter, is only Unattached or Follower (or Leader or Resigned, just after it was removed from
the voters). The voters are those of controller.quorum.voters while kraft.version is 0 (static), otherwise those of the
last VotersRecord in the log, committed or not (dynamic, KIP-853).

A new epoch, vote or leader is written to quorum-state before any message that follows from it is sent. Source:
KafkaRaftClient, QuorumState, LeaderState of Kafka 4.3; KIP-595, KIP-630, KIP-853, KIP-996, KIP-1186.
"""
