"""Consumer groups of KIP-848: members send heartbeats, the coordinator assigns, and partitions move one by one.

member              a member's subscription, its epochs, and the partitions that it owns
group               a group's members, its epochs, its target assignment; they change only when records are replayed
records             builds the records of the group's state, and replays them
find                the member that sends a request, and the check of its epoch
steps               what a heartbeat or JoinGroup does: note the subscription, refresh the topics, reconcile the member
reconcile           one member's next step from its current to its target assignment
target              the target assignment of the group, made by one of the assignors
fence               removal of members, and the timers that lead to it
heartbeat           ConsumerGroupHeartbeat: joining, staying, leaving
regex, topic_regex  subscriptions by regular expression
classic_members     members that speak the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup
upgrade, downgrade  a classic group becomes a consumer group, and the reverse, while it has members
"""
