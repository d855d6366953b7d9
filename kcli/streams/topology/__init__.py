"""What a topology is and does, without I/O and clock.

topology        nodes and stores under their names; sub-topologies
description     the text that Kafka Streams prints for it
processor       what a processor is and can do
operators       the processors of the DSL
stores          what they keep
task            a topology at work; begin here
input_queues    the next record of several topics
error_handlers  what happens after an error
punctuation     calls at intervals of time
timestamps      which timestamp an input record has
"""
