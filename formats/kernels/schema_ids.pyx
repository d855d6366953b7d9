"""The schema ids in a batch's records: the prefix that Confluent's serializers put before a key or a value.

    0     int8    magic byte, 0
    1     int32   id of the schema in a registry, big endian
    5     ...     the payload (Protobuf: message indexes before it)

Source: Confluent's wire format.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t

from formats.kernels.numbers cimport be32
from formats.kernels.records cimport Record, RecordTable

cdef enum:
    PREFIX_BYTES = 5


def refused_schema(RecordTable records not None, data not None, bint of_key, known not None):
    """Return the first record of the table whose key (of_key) or value has no known schema id: (its row, the id), with
    -1 for one without a prefix. None if there is no such record. Null is no payload, and not looked at.

    data: the buffer to which the table's positions refer. known: a schema id -> whether it is known; asked once for
    each id that differs from the record's before.
    """
    cdef Py_buffer view
    cdef Py_ssize_t i
    cdef Record *r
    cdef int64_t start, length, last = -1, found
    cdef const uint8_t *p
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        for i in range(records.count):
            r = records.at(i)
            start, length = (r.key_start, r.key_length) if of_key else (r.value_start, r.value_length)
            if length < 0:
                continue
            if length < PREFIX_BYTES or start < 0 or start > view.len - PREFIX_BYTES:
                return i, -1
            p = <const uint8_t *>view.buf + start
            if p[0]:
                return i, -1
            found = <int32_t>be32(p + 1)
            if found < 0:
                return i, -1
            if found != last:
                if not known(found):
                    return i, found
                last = found
    finally:
        PyBuffer_Release(&view)
    return None
