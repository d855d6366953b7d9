"""What a task does for each record, compiled: the parts of the core that are the same for every program.

    tuples        records and changes, made by C
    values        values to the bytes of serdes and stores, and back
    input_queues  the next record of several topics
    bytes_map     the entries of a key-value store, and the records of a changelog into it
    flow          what each node gets, and what sinks and stores send

They have neither I/O nor a clock. Begin with `flow`, of which `kcli.streams.topology.task.Task` is the rest.
"""
