"""make bench: kcli beside Kafka's own kafka-dump-log, on the same logs, in turn, in one run."""
