"""The group coordinator without I/O: classic groups, consumer groups and committed offsets. Each partition of
__consumer_offsets has a state machine of its own. Begin with `machine.GroupMachine`."""
