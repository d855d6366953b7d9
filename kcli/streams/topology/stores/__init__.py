"""State stores in memory: what a task keeps between records. They iterate in the order in which Kafka's iterate.

    store            what a builder and a changelog are
    key_value        the last value of each key
    window, session  the value of each key and window
    outer_join       records of two streams that have no other side yet
    suppress_buffer  changes of a table that suppress holds back

Begin with `key_value`. Stores keep bytes, as their changelogs have them, so that a value that a program changes later
does not change in the store.
"""
