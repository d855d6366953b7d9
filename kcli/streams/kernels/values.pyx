"""Values to the bytes of a serde and of a store, and back.

    timestamped store    timestamp (8 bytes), value     changelog    value; the record has the timestamp
    other store          value                                       value
"""

import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from formats.kernels.numbers cimport be64, set_be64

from kcli.streams.errors import SerializationError
from kcli.streams.records import ValueAndTimestamp

cdef enum:
    TIMESTAMP_BYTES = 8

cdef object NewValue = ValueAndTimestamp
cdef object StructError = struct.error


cpdef object to_bytes(object serde, object value):
    """Return the value's bytes, None for None. Raises SerializationError."""
    if value is None:
        return None
    try:
        return serde.serialize(value)
    except (ValueError, TypeError, AttributeError, RecursionError, StructError) as error:
        raise SerializationError(f"{value!r} is no {serde.name}: {error}") from None


cpdef object from_bytes(object serde, object data):
    """Return the value of these bytes, None for None. Raises SerializationError."""
    if data is None:
        return None
    try:
        return serde.deserialize(data)
    except (ValueError, TypeError, LookupError, RecursionError, StructError) as error:
        raise SerializationError(f"{len(data)} bytes are no {serde.name}: {error}") from None


cpdef bytes serialized_key(serde, key, store):
    """Return the bytes of a key in a store of this name. Raises SerializationError, also for None."""
    data = to_bytes(serde, key)
    if data is None:
        raise SerializationError(f"the store {store} takes no key None")
    return data


def raw(value, serde, bint timestamped):
    """Return the bytes that a store keeps for a value: those of the serde, in a timestamped store behind the timestamp
    of the ValueAndTimestamp in 8 bytes. None for no value."""
    if not timestamped or value is None:
        return to_bytes(serde, value)
    data = to_bytes(serde, value.value)
    return None if data is None else stamped(value.timestamp, data)


def looked_up(get, key_serde, key, store, value_serde, bint timestamped):
    """Return the value of a key in a store of this name. get: returns the bytes for those of a key. Raises
    SerializationError, also for None."""
    return value_of(get(serialized_key(key_serde, key, store)), value_serde, timestamped)


cpdef value_of(data, serde, bint timestamped):
    """Return the value of these bytes, which `raw` has made."""
    if not timestamped or data is None:
        return from_bytes(serde, data)
    return NewValue(from_bytes(serde, without_stamp(data)), stamp_of(data))


def log_raw(log, key, data, bint timestamped):
    """Add a key's bytes, as the store keeps them, to the changelog. A timestamped value loses its timestamp, which
    becomes that of the changelog's record."""
    if timestamped and data is not None:
        log(key, without_stamp(data), stamp_of(data))
    else:
        log(key, data, None)


def logged(value, timestamp, bint timestamped):
    """Return the bytes that a store keeps for a record of its changelog, which `log_raw` has made."""
    return stamped(timestamp, value) if timestamped and value is not None else value


cdef bytes stamped(int64_t timestamp, object value):
    cdef bytes data = value if type(value) is bytes else b"" + value
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, TIMESTAMP_BYTES + size)
    cdef char *place = PyBytes_AS_STRING(made)
    set_be64(<uint8_t *>place, <int64_t>timestamp)
    memcpy(place + TIMESTAMP_BYTES, PyBytes_AS_STRING(data), size)
    return made


cdef int64_t stamp_of(bytes data) except? -2:
    if PyBytes_GET_SIZE(data) < TIMESTAMP_BYTES:
        raise ValueError(f"{len(data)} bytes have no timestamp")
    return <int64_t>be64(<const uint8_t *>PyBytes_AS_STRING(data))


cdef bytes without_stamp(bytes data):
    return data[TIMESTAMP_BYTES:]
