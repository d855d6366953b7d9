"""What a task does with each record between Kafka and its connector: converters, transforms, and what a failure costs.

    source   record -> transforms -> converters -> message
    sink     message -> converters -> transforms -> record

failures     errors.*: tolerance, retries, the line in the log, the dead letter with its headers. Start here
processor    records to messages and back, by a connector's configuration

Neither knows a cluster, a task or a clock: the engine hands them in, and acts on a Failure.
"""
