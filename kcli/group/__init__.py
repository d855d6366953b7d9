"""The group coordinator without I/O: classic groups, consumer groups and committed offsets, one machine for each
partition of __consumer_offsets. Begin with `machine.GroupMachine`."""
