"""The configurations with which topics are created automatically when a client first requests them.

    __consumer_offsets     offsets.topic.*                  committed offsets and groups
    __transaction_state    transaction.state.log.*          transactions
    __share_group_state    share.coordinator.state.topic.*  share groups

Source: DefaultAutoTopicCreationManager, GroupCoordinatorService, TransactionStateManager, ShareCoordinatorService.
"""

from __future__ import annotations

from collections.abc import Callable

from kcli.metadata.topic_control import NewTopic


def new_topic(name: str, number: Callable[[str], int]) -> NewTopic:
    """Return the topic to create when a client requests one that does not exist, internal or not.

    number: returns the value of a broker's numeric configuration by name.
    """
    configs = {"cleanup.policy": "compact"}
    match name:
        case "__consumer_offsets":
            prefix = "offsets.topic"
            configs |= {"compression.type": "producer", "segment.bytes": str(number(f"{prefix}.segment.bytes"))}
        case "__transaction_state":
            prefix = "transaction.state.log"
            configs |= {
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(number(f"{prefix}.min.isr")),
                "segment.bytes": str(number(f"{prefix}.segment.bytes")),
            }
        case "__share_group_state":
            prefix = "share.coordinator.state.topic"
            configs = {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(number(f"{prefix}.min.isr")),
                "segment.bytes": str(number(f"{prefix}.segment.bytes")),
                "retention.ms": "-1",
            }
        case _:
            partitions, factor = number("num.partitions"), number("default.replication.factor")
            return NewTopic(name=name, num_partitions=partitions, replication_factor=factor)
    return NewTopic(
        name=name,
        num_partitions=number(f"{prefix}.num.partitions"),
        replication_factor=number(f"{prefix}.replication.factor"),
        configs=tuple(configs.items()),
    )
