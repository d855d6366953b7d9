"""The group coordinator without I/O: classic groups and committed offsets, one machine for each partition of
__consumer_offsets. `machine.GroupMachine` is the way in."""
