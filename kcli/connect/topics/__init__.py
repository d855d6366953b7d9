"""Connect's three topics: their records, byte for byte as Kafka's worker writes them, and the state that replay makes.

    configs    connect-configs: configurations of connectors and tasks, target states, session keys, restarts, loggers
    offsets    connect-offsets: where sources go on
    statuses   connect-status: states of connectors and tasks, and the topics that connectors use

Values are JSON without schemas, as JsonConverter with schemas.enable=false writes them. No I/O, no clock.
"""
