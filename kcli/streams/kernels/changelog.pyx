"""The records of a changelog to the bytes that a key-value store keeps."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_SetItem
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from formats.kernels.numbers cimport set_be64
from formats.kernels.records cimport Record, RecordTable

cdef enum:
    TIMESTAMP_BYTES = 8

Records = RecordTable


def restore(RecordTable records not None, const uint8_t[::1] data, dict values not None, list new not None, pop, *,
            bint timestamped):
    """Put records into the dict of a store; add keys that it has not to `new`. pop: deletes a key that has no value any
    more. Return how many records were taken: those before the first one without a key.

    data: the bytes to which the places in the table refer.
    """
    cdef Py_ssize_t i, known = len(values), room = TIMESTAMP_BYTES if timestamped else 0
    cdef Record *record
    cdef bytes key, value
    cdef char *place
    for i in range(records.count):
        record = records.at(i)
        if not is_within(data, record.key_start, record.key_length):
            return i
        key = PyBytes_FromStringAndSize(<const char *>&data[record.key_start], record.key_length)
        if record.value_length < 0:
            pop(key)
            known = len(values)
            continue
        if not is_within(data, record.value_start, record.value_length):
            return i
        value = PyBytes_FromStringAndSize(NULL, room + record.value_length)
        place = PyBytes_AS_STRING(value)
        if timestamped:
            set_be64(<uint8_t *>place, record.timestamp)
        memcpy(place + room, &data[record.value_start], record.value_length)
        PyDict_SetItem(values, key, value)
        if len(values) != known:
            known += 1
            new.append(key)
    return records.count


cdef inline bint is_within(const uint8_t[::1] data, int64_t start, int64_t length) noexcept:
    return 0 <= length <= data.shape[0] and 0 <= start <= data.shape[0] - length
