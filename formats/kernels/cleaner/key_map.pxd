from libc.stdint cimport int64_t, uint32_t, uint64_t

from formats.kernels.batches cimport Batch
from formats.kernels.numbers cimport minus

cdef extern from * nogil:
    """
    #define kcli_prefetch(p) __builtin_prefetch(p, 1)
    """
    void kcli_prefetch(const void *p)

cdef enum:
    PARTS = 64                 # of the map; each grows by itself, so that growing never takes twice the memory
    SMALLEST_RECORD = 7        # length, attributes, two deltas, three counts

cpdef enum:
    OFFSET_MAP_ENTRY_BYTES = 24     # what an entry takes in Kafka's map and in this one: hash and offset


cdef struct KeyHash:
    uint64_t high
    uint64_t low
    int64_t offset
    int64_t before             # last offset of the batch before it, -1 where the row above is of the same batch


cdef struct MapSlot:
    uint64_t high
    uint64_t low
    uint64_t next_offset       # offset + 1, of any offset that is not negative; 0: empty


cdef struct MapPart:
    MapSlot *slots
    int64_t capacity
    int64_t used


cdef class KeyMap:
    cdef MapPart parts[PARTS]
    cdef uint64_t k0, k1
    cdef int64_t part_limit
    cdef readonly int64_t slots
    cdef readonly int64_t limit
    cdef readonly int64_t count
    cdef public int64_t reach
    cdef int64_t last_key               # offset put last
    cdef bint in_order                  # offsets rise, each within its batch
    cdef bint null_keys                 # some records have no key
    cdef uint64_t *marks
    cdef int64_t marks_from, marks_to   # offsets, both included

    cdef int _grow(self, MapPart *part) except -1 nogil
    cdef int _put(self, KeyHash *key) except -1 nogil
    cdef bint none_latest(self, int64_t first, int64_t last) noexcept nogil

    cdef inline MapSlot *home(self, uint64_t high, uint64_t low) noexcept nogil:
        """The slot where the search for an entry begins; NULL in a part without slots."""
        cdef MapPart *part = &self.parts[high >> 58]
        if part.capacity == 0:
            return NULL
        return &part.slots[<int64_t>((<uint64_t><uint32_t>low * <uint64_t>part.capacity) >> 32)]

    cdef inline MapSlot *find(self, uint64_t high, uint64_t low) noexcept nogil:
        """The slot of the key, or the empty one where it would go; NULL in a part without slots."""
        cdef MapPart *part = &self.parts[high >> 58]
        cdef MapSlot *slot = self.home(high, low)
        if slot == NULL:
            return NULL
        while slot.next_offset and (slot.high != high or slot.low != low):
            slot += 1
            if slot == &part.slots[part.capacity]:
                slot = part.slots
        return slot

    cdef inline int64_t latest(self, uint64_t high, uint64_t low) noexcept nogil:
        """The key's latest offset; -1 for one that is not in the map."""
        cdef MapSlot *slot = self.find(high, low)
        return -1 if slot == NULL else <int64_t>(slot.next_offset - 1)

    cdef inline bint has_marks_for(self, Batch *b) noexcept nogil:
        """Whether bits decide about the records of this magic 2 batch, which belongs to no transaction."""
        return self.marks != NULL and self.marks_from <= b.base_offset <= b.last_offset <= self.marks_to

    cdef inline bint is_latest(self, int64_t offset) noexcept nogil:
        """Whether the record at an offset is the latest of its key; True for an offset without a bit."""
        cdef int64_t at = minus(offset, self.marks_from)
        return not self.marks_from <= offset <= self.marks_to or self.marks[at >> 6] >> (at & 63) & 1
