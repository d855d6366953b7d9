"""The local runner: a program as a process that joins a consumer group and processes its share of the partitions.

    plan           sub-topologies and their tasks; internal topics, and what is wrong with those that exist
    internal       makes internal topics; refuses to begin if a topic is missing or of another size
    checks         refuses to go on if topics of the application are lost, or the program has changed
    active_task    a task with its partitions: restored from changelogs, then fed with records
    changelog      what is in a store, by its changelog alone
    explain        which input records have made a key's value, by processing them again
    standbys       which instances keep the stores of which other tasks
    kafka_streams  KafkaStreams: the loop that polls, processes and commits; begin here

The operators are those of kcli.streams.topology; the clients are those of kcli.client.processing.
"""

from kcli.streams.local.kafka_streams import KafkaStreams, ProcessingGuarantee

__all__ = ["KafkaStreams", "ProcessingGuarantee"]
