"""The operators of streams and tables: what each does with a record. Each is a supplier of processors.

    stateless         filter, map, flat_map, peek, branches
    table             the base of all tables: how later steps read a table's values and get old values
    table_source      a topic, a stream or the result of a foreign-key join as a table
    table_stateless   filter and map_values of a table
    aggregate         count, reduce and aggregate of a stream
    merged            aggregates of several streams in one store
    window_aggregate  the same in tumbling and hopping windows
    sliding, session  the same in sliding and session windows
    table_aggregate   count, reduce and aggregate of a table that is grouped by other keys
    stream_join       two streams, within a window
    stream_table      a stream and a table, or a global table
    table_join        two tables with one key
    foreign_key       two tables, one of which has the key of the other
    suppress          a table's changes, held back for a time or until a window closes
    fixed_key         a processor that must not change the key

Source: the classes KStream... and KTable... of Kafka Streams.
"""
