"""The metadata log of a node: appends, replay, snapshots, and its quorum."""
