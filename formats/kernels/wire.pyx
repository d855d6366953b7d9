# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, auto_pickle=False
"""Check the bytes of a request by its schema, before objects are made of it; and read Produce requests, the large ones.

A reader that allocates as many items as a request claims can be killed by a request of twenty bytes. This check
allocates nothing: it compares every length and count with the bytes that remain, and all items with a limit.

A schema is an array of numbers, one struct behind the other; structs refer to others by the index where they begin:

    struct   count of fields, 1 if flexible, count of tagged fields, then the fields, then each tag and its field
    field    kind, argument, 1 if nullable

    FIXED    argument: bytes              ARRAY_FIXED    argument: bytes of an item
    SIZED    argument: bytes of a length  ARRAY_SIZED    argument: bytes of an item's length
    STRUCT   argument: where it begins    ARRAY_STRUCT   argument: where it begins

In flexible structs lengths and counts are unsigned varints, one more than the number, 0 for null. Source: KIP-482,
KIP-893 (structs that may be null); kcli.broker.network.request_check makes the schemas from kio's classes.
"""

from cpython.bytearray cimport PyByteArray_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from formats.errors import BadCount, BadValue, BadVarint, LimitExceeded, Truncated
from formats.java_text import java_utf8

FIXED, SIZED, STRUCT, ARRAY_FIXED, ARRAY_SIZED, ARRAY_STRUCT = range(6)

cdef enum:
    STRING_MAX = 0x7fff  # the most bytes of a string, even if its length is a varint: Kafka refuses a longer one
    DEPTH_MAX = 64  # the greatest depth of nested structs; no message of Kafka has a depth of ten

cdef enum:
    K_FIXED, K_SIZED, K_STRUCT, K_ARRAY_FIXED, K_ARRAY_SIZED, K_ARRAY_STRUCT

cdef enum Fault:
    OK, CUT, NULL_FOUND, LONG_VARINT, LONG_STRING, NEGATIVE, TOO_MANY, NO_SCHEMA

cdef int32_t[3] ONLY_TAGS = [0, 1, 0]  # a flexible struct without fields or known tags

cdef struct Walk:
    const int32_t *schema
    int64_t schema_size
    const uint8_t *data
    int64_t position
    int64_t end
    int64_t items_left
    int depth
    bint unknown_tags


cdef inline Fault skip(Walk *walk, int64_t size) noexcept nogil:
    if not 0 <= size <= walk.end - walk.position:
        return CUT
    walk.position += size
    return OK


cdef inline Fault varint(Walk *walk, int64_t *value) noexcept nogil:
    cdef int shift
    cdef uint8_t byte
    value[0] = 0
    for shift in range(0, 35, 7):
        if walk.position >= walk.end:
            return CUT
        byte = walk.data[walk.position]
        walk.position += 1
        value[0] |= <int64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return OK
    return LONG_VARINT


cdef inline Fault length_or_null(Walk *walk, int width, bint flexible, int64_t *found) noexcept nogil:
    """Read a length or count; null is -1."""
    cdef Fault fault
    cdef const uint8_t *at
    if flexible:
        fault = varint(walk, found)
        if fault != OK:
            return fault
        found[0] -= 1
        if width == 2 and found[0] > STRING_MAX:
            return LONG_STRING
    else:
        fault = skip(walk, width)
        if fault != OK:
            return fault
        at = walk.data + walk.position - width
        found[0] = <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16)
        if width == 4:
            found[0] |= at[2] << 8 | at[3]
        else:
            found[0] >>= 16
    return OK if found[0] >= -1 else NEGATIVE


cdef inline Fault length(Walk *walk, int width, bint flexible, bint nullable, int64_t *found) noexcept nogil:
    """Read a length or count; null becomes 0."""
    cdef Fault fault = length_or_null(walk, width, flexible, found)
    if fault == OK and found[0] == -1:
        if not nullable:
            return NULL_FOUND
        found[0] = 0
    return fault


cdef inline Fault array_length(Walk *walk, bint flexible, bint nullable, int64_t *count) noexcept nogil:
    """Read the count of an array, and check it against the bytes that remain and the limit of all items."""
    cdef Fault fault = length(walk, 4, flexible, nullable, count)
    if fault != OK:
        return fault
    if count[0] > walk.end - walk.position:  # no item is smaller than a byte
        return CUT
    walk.items_left -= count[0]
    return OK if walk.items_left >= 0 else TOO_MANY


cdef Fault field(Walk *walk, int kind, int argument, bint nullable, bint flexible) noexcept nogil:
    cdef int64_t count
    cdef Fault fault
    if kind == K_FIXED:
        return skip(walk, argument)
    if kind == K_STRUCT:
        if nullable:
            if walk.position >= walk.end:
                return CUT
            walk.position += 1
            if walk.data[walk.position - 1] >= 0x80:
                return OK
        return structure(walk, argument)
    if kind == K_SIZED:
        fault = length(walk, argument, flexible, nullable, &count)
        return fault if fault != OK else skip(walk, count)
    fault = array_length(walk, flexible, nullable, &count)
    if fault != OK:
        return fault
    if kind == K_ARRAY_FIXED:
        return skip(walk, count * argument)             # a count is at most the bytes there are, an argument an int32
    while count > 0 and fault == OK:
        count -= 1
        if kind == K_ARRAY_STRUCT:
            fault = structure(walk, argument)
        else:
            fault = field(walk, K_SIZED, argument, False, flexible)
    return fault


cdef Fault structure(Walk *walk, int at) noexcept nogil:
    """Check a struct with its fields. The depth bounds the recursion of a schema that contains itself."""
    cdef Fault fault
    if walk.depth >= DEPTH_MAX:
        return NO_SCHEMA
    walk.depth += 1
    fault = contents(walk, at)
    walk.depth -= 1
    return fault


cdef Fault contents(Walk *walk, int at) noexcept nogil:
    cdef const int32_t *schema = walk.schema + at
    cdef const int32_t *each = schema + 3
    cdef int fields, flexible, known, i
    cdef int64_t count, tag, size, behind
    cdef Fault fault
    if at < 0 or walk.schema_size - at < 3:
        return NO_SCHEMA
    fields, flexible, known = schema[0], schema[1], schema[2]
    if fields < 0 or known < 0 or 3 * <int64_t>fields + 4 * <int64_t>known > walk.schema_size - at - 3:
        return NO_SCHEMA
    for i in range(fields):
        fault = field(walk, each[0], each[1], each[2], flexible)
        if fault != OK:
            return fault
        each += 3
    if not flexible:
        return OK
    fault = varint(walk, &count)
    while count > 0 and fault == OK:
        count -= 1
        fault = varint(walk, &tag)
        if fault == OK:
            fault = varint(walk, &size)
        if fault != OK:
            return fault
        if size > walk.end - walk.position:
            return CUT
        behind = walk.position + size
        for i in range(known):
            if each[4 * i] == tag:
                fault = field(walk, each[4 * i + 1], each[4 * i + 2], each[4 * i + 3], True)
                break
        else:
            walk.unknown_tags = True
            walk.position = behind
        if fault == OK and walk.position != behind:
            return CUT
    return fault


def room(Py_ssize_t size_bytes):
    return PyByteArray_FromStringAndSize(NULL, size_bytes)


def check(const int32_t[::1] schema not None, const uint8_t[::1] data not None, int64_t position, int64_t items_max):
    """Check the bytes of a struct, the first of the schema, that begins at byte `position` of the data.

    items_max: the most items of all arrays together. Return whether there are unknown tagged fields. Raises Truncated,
    BadCount, BadValue (null in a field that is not nullable), BadVarint, LimitExceeded; ValueError for a bad schema.
    """
    cdef Walk walk
    cdef Fault fault
    if not 0 <= position <= data.shape[0]:
        raise Truncated("nothing is there", position)
    walk.schema, walk.schema_size = &schema[0] if schema.shape[0] else NULL, schema.shape[0]
    walk.data = &data[0] if data.shape[0] else <const uint8_t *>b""
    walk.position, walk.end, walk.items_left = position, data.shape[0], items_max
    walk.depth, walk.unknown_tags = 0, False
    fault = structure(&walk, 0)
    if fault != OK:
        raise_fault(fault, walk.position, items_max)
    return walk.unknown_tags


def behind_tags(const uint8_t[::1] data not None, int64_t position):
    """Return the byte after the tagged fields, all of them unknown, that begin at byte `position` of the data. Raises
    Truncated, BadVarint."""
    cdef Walk walk
    cdef Fault fault
    if not 0 <= position <= data.shape[0]:
        raise Truncated("nothing is there", position)
    walk.schema, walk.schema_size = ONLY_TAGS, 3
    walk.data = &data[0] if data.shape[0] else <const uint8_t *>b""
    walk.position, walk.end, walk.items_left, walk.depth = position, data.shape[0], 0, 0
    fault = structure(&walk, 0)
    if fault != OK:
        raise_fault(fault, walk.position, 0)
    return walk.position


cdef int raise_fault(Fault fault, int64_t position, int64_t items_max) except -1:
    if fault == CUT:
        raise Truncated("the bytes end inside a field", position)
    if fault == NULL_FOUND:
        raise BadValue("null where there must be a value", position)
    if fault == LONG_VARINT:
        raise BadVarint("a varint of more than 5 bytes", position)
    if fault == LONG_STRING:
        raise LimitExceeded(f"a string of more than {STRING_MAX:,} bytes", position)
    if fault == NO_SCHEMA:
        raise ValueError("the numbers are no schema")
    if fault == NEGATIVE:
        raise BadCount("a negative length", position)
    raise LimitExceeded(f"more than {items_max:,} items in all arrays", position)


cdef class Reader:
    """A walk over a request that also returns the values of fields."""

    cdef Walk walk
    cdef int64_t items_max
    cdef bint flexible
    cdef object frame

    cdef int ended(self, Fault fault) except -1:
        if fault != OK:
            raise_fault(fault, self.walk.position, self.items_max)
        return 0

    cdef int64_t number(self, int size) except? -1:
        cdef const uint8_t *at
        cdef uint32_t value = 0
        self.ended(skip(&self.walk, size))
        at = self.walk.data + self.walk.position - size
        for i in range(size):
            value = value << 8 | at[i]
        return <int16_t>value if size == 2 else <int32_t>value

    cdef int64_t count(self) except -1:
        cdef int64_t found
        self.ended(array_length(&self.walk, self.flexible, False, &found))
        return found

    cdef object slice(self, int width):
        """Read bytes with their length; return a view of them, or None for null."""
        cdef int64_t size, start
        self.ended(length_or_null(&self.walk, width, self.flexible, &size))
        if size < 0:
            return None
        start = self.walk.position
        self.ended(skip(&self.walk, size))
        return self.frame[start:start + size]

    cdef int skip_tags(self) except -1:
        if self.flexible:
            self.walk.schema, self.walk.schema_size = ONLY_TAGS, 3
            self.ended(structure(&self.walk, 0))
        return 0


def read_produce(frame not None, int64_t position, int version, int64_t items_max):
    """Return the fields of the Produce request, version 3 to 13, at byte `position` of the frame, a memoryview:
    (transactional id or None, acks, timeout in ms, [(topic, [(index, records), ...]), ...]).

    topic: its name, or from version 13 on the 16 bytes of its id. records: a view of the frame, or None. Source:
    ProduceRequest.json. Raises the errors of `check`.
    """
    cdef const uint8_t[::1] data = frame
    cdef Reader reader = Reader()
    cdef int64_t topics, partitions, index
    if not 0 <= position <= data.shape[0]:
        raise Truncated("nothing is there", position)
    reader.frame, reader.items_max, reader.flexible = frame, items_max, version >= 9
    reader.walk.data = &data[0] if data.shape[0] else <const uint8_t *>b""
    reader.walk.position, reader.walk.end, reader.walk.items_left = position, data.shape[0], items_max
    transactional_id = reader.slice(2)
    if transactional_id is not None:
        transactional_id = java_utf8(transactional_id)
    acks, timeout_ms = reader.number(2), reader.number(4)
    found = []
    for _ in range(reader.count()):
        if version >= 13:
            reader.ended(skip(&reader.walk, 16))
            topic = bytes(frame[reader.walk.position - 16:reader.walk.position])
        else:
            name = reader.slice(2)
            if name is None:
                raise_fault(NULL_FOUND, reader.walk.position, 0)
            topic = java_utf8(name)
        batches = []
        for _ in range(reader.count()):
            index = reader.number(4)
            batches.append((index, reader.slice(4)))
            reader.skip_tags()
        reader.skip_tags()
        found.append((topic, batches))
    reader.skip_tags()
    return transactional_id, acks, timeout_ms, found
