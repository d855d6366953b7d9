"""State stores in memory: what a task keeps between records. They iterate in the order in which Kafka's iterate.

    store            what a builder and a changelog are
    key_value        the last value of each key
    versioned        the values that each key has had
    window, session  the value of each key and window
    outer_join       records of two streams that have no other side yet
    suppress_buffer  changes of a table that suppress holds back
    join_buffer      records of a stream that wait for the table that they are joined with
    buffered         how the two buffers write a record to their changelogs

Begin with `key_value`. Stores keep bytes, as their changelogs have them, so that a value that a program changes later
does not change in the store.
"""
