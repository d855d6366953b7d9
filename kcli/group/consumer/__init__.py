"""Consumer groups of KIP-848: members heartbeat, the coordinator assigns; partitions move one by one.

member              what a member has said, and which partitions it has, at which epochs
group               the members of a group, its epoch, its target assignment: only records change it
records             from the group to records, and back
reconcile           one member's next step from what it has to what it shall have
target              who shall have what
heartbeat           joining, staying, leaving
regex               subscriptions by regular expression
classic_members     who still speaks JoinGroup and SyncGroup
upgrade, downgrade  groups change their kind, with their members
"""
