"""Compiled code, called kernels, that reads and writes the formats in bulk: whole windows of a log as tables and
columns.

Kernels do no I/O and create no Python object per record; long loops run without the GIL. The Construct definitions in
`formats.record_batch` and `formats.legacy` specify the bytes, and property tests check that the kernels agree.

    reading a log       scan finds batches -> batches.BatchTable -> records.RecordTable; columns: a row as a named tuple
    writing             write: batches and records; buffer: the output buffer; indexes: entries of index files
    state of a log      producers, recovery (of a segment), append and schema_ids (checks before an append), log_check
                        (for `verify`)
    compaction          cleaner
    output              text, summary
    export              arrow: records as columns and back, partitions of keys; payload: Avro, JSON and Protobuf as
                        columns
    requests            wire: checks the bytes of a request before objects are made of it; group_requests: the frequent
                        requests of group members, and commits that are repeated; consumer_fetch, follower_fetch:
                        Fetches; fetch_response: lays out the responses; produce: answers plain Produce requests

A module is NAME.pyx. NAME.pxd declares its C interface for other kernels, NAME.pyi its Python interface. A function
that another module calls for each record is `cdef inline` in a .pxd, so that the C compiler can inline it. The modules
that have only a .pxd (numbers, varint, utf8, walk) consist of such functions.
"""
