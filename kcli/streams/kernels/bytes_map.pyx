"""A map from bytes to bytes for stores with many keys: entries lie one behind the other in large blocks of memory.

    slots     hash (32 bits), unit (32 bits) of the entry; 0: free. Open addressing, the next slot is tried next
    entry     length of the key, length of the value (4 bytes each), key, value; in whole units of 16 bytes

A dict of bytes objects takes twice the memory, and most of the time of restoring goes into that memory. The hash is
SipHash-1-3 with a key of its own for each process, as Python's: nobody outside knows which keys collide.
"""

import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy

from formats.kernels.numbers cimport set_be64
from formats.kernels.records cimport Record, RecordTable

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define kcli_prefetch(place) __builtin_prefetch(place)
    #else
    #define kcli_prefetch(place)
    #endif
    """
    void kcli_prefetch(const void *place) noexcept nogil

cdef enum:
    UNIT_BYTES = 16
    BLOCK_SHIFT = 18  # a block has so many units, as a power of 2
    FEW_SLOTS = 16
    AT_ONCE = 16  # records whose slots are fetched into the cache together
    COMPACTED_UNITS = 65536  # so many units of replaced entries are left in any case
    TIMESTAMP_BYTES = 8

cdef uint64_t BLOCK_UNITS = 1 << BLOCK_SHIFT
cdef uint64_t UNIT_MASK = (<uint64_t>1 << 32) - 1
cdef uint64_t MAX_BYTES = (<uint64_t>1 << 31) - 1
cdef bytes secret = os.urandom(16)
cdef uint64_t secret_0 = int.from_bytes(secret[:8])
cdef uint64_t secret_1 = int.from_bytes(secret[8:])
cdef uint64_t[4] initial = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]

Records = RecordTable


cdef struct Value:
    # The parts of a value: a timestamp in front of the bytes, if it has one.
    bint is_timestamped
    int64_t timestamp
    const uint8_t *data
    uint64_t length


cdef class BytesMap:
    """A map with the methods of a dict that stores need. Not for several threads at once."""

    cdef uint64_t *slots
    cdef uint64_t mask, count
    cdef uint8_t **blocks    # by the upper bits of a unit
    cdef bint *owned         # whether a block was allocated; else it is a part of the one before
    cdef uint64_t blocks_count
    cdef uint64_t following, end  # the free units of the last block
    cdef uint64_t live, dead      # units of entries that are reached, and of those that are not any more
    cdef bint is_busy

    def __cinit__(self):
        self.slots = <uint64_t *>calloc(FEW_SLOTS, sizeof(uint64_t))
        if self.slots == NULL:
            raise MemoryError
        self.mask = FEW_SLOTS - 1

    def __dealloc__(self):
        free(self.slots)
        free_blocks(self.blocks, self.owned, self.blocks_count)

    def __len__(self):
        return self.count

    def __contains__(self, bytes key not None):
        self.check()
        return self.find(hash_of(key), text(key), PyBytes_GET_SIZE(key)) >= 0

    def __getitem__(self, bytes key not None):
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, bytes key not None, bytes value not None):
        self.check()
        cdef Value parts = Value(False, 0, text(value), PyBytes_GET_SIZE(value))
        cdef uint32_t hashed = hash_of(key)
        if self.put(hashed, text(key), PyBytes_GET_SIZE(key), &parts) < 0:
            raise_full()

    def __delitem__(self, bytes key not None):
        self.check()
        if not self.remove(hash_of(key), text(key), PyBytes_GET_SIZE(key)):
            raise KeyError(key)

    def __iter__(self):
        """Iterate over the keys that are there now, in no order."""
        return iter(self.keys())

    def keys(self):
        """Return the keys in a list, in no order."""
        self.check()
        cdef list found = []
        cdef uint64_t i
        cdef const uint8_t *entry
        for i in range(self.mask + 1):
            if self.slots[i]:
                entry = self.entry_of(self.slots[i])
                found.append(PyBytes_FromStringAndSize(<const char *>entry + 8, key_length(entry)))
        return found

    def get(self, bytes key not None, default=None):
        """Return the key's value, `default` if there is none."""
        self.check()
        cdef int64_t slot = self.find(hash_of(key), text(key), PyBytes_GET_SIZE(key))
        return self.value_at(slot) if slot >= 0 else default

    def pop(self, bytes key not None, default=None):
        """Remove a key; return its value, `default` if there was none."""
        self.check()
        cdef uint32_t hashed = hash_of(key)
        cdef int64_t slot = self.find(hashed, text(key), PyBytes_GET_SIZE(key))
        if slot < 0:
            return default
        found = self.value_at(slot)
        self.remove(hashed, text(key), PyBytes_GET_SIZE(key))
        return found

    def restore(self, RecordTable records not None, const uint8_t[::1] data, *, bint timestamped):
        """Put the records of a changelog: a record without a value removes its key. Return how many were taken: those
        before the first one without a key. Other threads run meanwhile.

        data: the bytes to which the places in the table refer. timestamped: whether values get the timestamps of their
        records in front of them, in 8 bytes.
        """
        self.check()
        cdef Py_ssize_t taken = 0
        cdef const uint8_t *buffer = &data[0] if data.shape[0] else NULL
        self.is_busy = True
        try:
            with nogil:
                taken = self.put_all(records, buffer, data.shape[0], timestamped)
        finally:
            self.is_busy = False
        if taken < 0:
            raise_full()
        return taken

    cdef int check(self) except -1:
        if self.is_busy:
            raise RuntimeError("another thread is restoring the store")
        return 0

    cdef Py_ssize_t put_all(self, RecordTable records, const uint8_t *data, int64_t size, bint timestamped) noexcept nogil:
        """Return how many records were taken; -1 if there is no memory for one."""
        cdef uint32_t hashes[AT_ONCE]
        cdef Py_ssize_t i, begin = 0, count = records.count, end
        cdef Record *record
        cdef Value value
        while begin < count:
            end = min(begin + AT_ONCE, count)
            for i in range(begin, end):
                record = records.at(i)
                if not is_within(size, record.key_start, record.key_length):
                    end = i
                    count = i
                    break
                if record.value_length >= 0 and not is_within(size, record.value_start, record.value_length):
                    end = i
                    count = i
                    break
                hashes[i - begin] = sip_hash(data + record.key_start, record.key_length)
                kcli_prefetch(self.slots + (hashes[i - begin] & self.mask))
            for i in range(begin, end):
                record = records.at(i)
                if record.value_length < 0:
                    self.remove(hashes[i - begin], data + record.key_start, record.key_length)
                    continue
                value.is_timestamped, value.timestamp = timestamped, record.timestamp
                value.data, value.length = data + record.value_start, record.value_length
                if self.put(hashes[i - begin], data + record.key_start, record.key_length, &value) < 0:
                    return -1
            begin = end
        return count

    cdef inline uint8_t *place_of(self, uint64_t unit) noexcept nogil:
        return self.blocks[unit >> BLOCK_SHIFT] + (unit & (BLOCK_UNITS - 1)) * UNIT_BYTES

    cdef inline uint8_t *entry_of(self, uint64_t slot) noexcept nogil:
        return self.place_of(slot & UNIT_MASK)

    cdef bytes value_at(self, int64_t slot):
        cdef const uint8_t *entry = self.entry_of(self.slots[slot])
        return PyBytes_FromStringAndSize(<const char *>entry + 8 + key_length(entry), value_length(entry))

    cdef int64_t find(self, uint32_t hashed, const uint8_t *key, uint64_t length) noexcept nogil:
        """Return the slot of a key; if there is none, -1 - the free slot that it would get."""
        cdef uint64_t i = hashed & self.mask
        cdef const uint8_t *entry
        while self.slots[i]:
            if self.slots[i] >> 32 == hashed:
                entry = self.entry_of(self.slots[i])
                if key_length(entry) == length and memcmp(entry + 8, key, length) == 0:
                    return i
            i = (i + 1) & self.mask
        return -1 - <int64_t>i

    cdef int put(self, uint32_t hashed, const uint8_t *key, uint64_t length, const Value *value) noexcept nogil:
        """Set a key's value. Return -1 if there is no memory for it."""
        cdef uint64_t value_size = value.length + (TIMESTAMP_BYTES if value.is_timestamped else 0)
        cdef uint64_t units = units_of(length, value_size), unit
        cdef int64_t slot
        cdef uint8_t *entry
        if length > MAX_BYTES or value_size > MAX_BYTES:
            return -1
        if (self.count + 1) * 8 > (self.mask + 1) * 5 and self.grow() < 0:
            return -1
        slot = self.find(hashed, key, length)
        if slot >= 0:
            entry = self.entry_of(self.slots[slot])
            if units_of(length, value_length(entry)) == units:
                write_value(entry, length, value, value_size)
                return 0
        unit = self.new_units(units)
        if not unit:
            return -1
        if slot >= 0:
            self.leave(entry)
        else:
            self.count += 1
            slot = -1 - slot
        self.live += units
        self.slots[slot] = <uint64_t>hashed << 32 | unit
        entry = self.place_of(unit)
        (<uint32_t *>entry)[0] = <uint32_t>length
        memcpy(entry + 8, key, length)
        write_value(entry, length, value, value_size)
        if self.dead > self.live + COMPACTED_UNITS:
            self.compact()
        return 0

    cdef bint remove(self, uint32_t hashed, const uint8_t *key, uint64_t length) noexcept nogil:
        """Remove a key. Return whether it was there. The entries behind it that it has displaced move up."""
        cdef int64_t slot = self.find(hashed, key, length)
        if slot < 0:
            return False
        self.leave(self.entry_of(self.slots[slot]))
        self.count -= 1
        cdef uint64_t hole = slot, i = slot, home
        while True:
            i = (i + 1) & self.mask
            if not self.slots[i]:
                break
            home = (self.slots[i] >> 32) & self.mask
            if (i - home) & self.mask >= (i - hole) & self.mask:
                self.slots[hole] = self.slots[i]
                hole = i
        self.slots[hole] = 0
        if self.dead > self.live + COMPACTED_UNITS:
            self.compact()
        return True

    cdef void leave(self, const uint8_t *entry) noexcept nogil:
        cdef uint64_t units = units_of(key_length(entry), value_length(entry))
        self.live -= units
        self.dead += units

    cdef uint64_t new_units(self, uint64_t units) noexcept nogil:
        """Return the first of so many adjacent free units; 0 if there is no memory for them."""
        cdef uint64_t blocks, i, room
        cdef uint8_t **found
        cdef bint *owned
        cdef uint8_t *block
        if self.following + units > self.end or self.end == 0:
            blocks = (units + BLOCK_UNITS) // BLOCK_UNITS  # one unit more than needed: unit 0 is none
            room = self.blocks_count + blocks
            if room * BLOCK_UNITS > UNIT_MASK:
                return 0
            found = <uint8_t **>realloc(self.blocks, room * sizeof(uint8_t *))
            if found == NULL:
                return 0
            self.blocks = found
            owned = <bint *>realloc(self.owned, room * sizeof(bint))
            if owned == NULL:
                return 0
            self.owned = owned
            block = <uint8_t *>malloc(blocks * BLOCK_UNITS * UNIT_BYTES)
            if block == NULL:
                return 0
            for i in range(blocks):
                self.blocks[self.blocks_count + i] = block + i * BLOCK_UNITS * UNIT_BYTES
                self.owned[self.blocks_count + i] = i == 0
            self.following = self.blocks_count * BLOCK_UNITS
            self.following += self.following == 0
            self.blocks_count = room
            self.end = room * BLOCK_UNITS
        self.following += units
        return self.following - units

    cdef int grow(self) noexcept nogil:
        """Double the slots. Return -1 if there is no memory for them."""
        cdef uint64_t wider = (self.mask << 1) | 1, i, at
        cdef uint64_t *found = <uint64_t *>calloc(wider + 1, sizeof(uint64_t))
        if found == NULL or wider > UNIT_MASK:
            free(found)
            return -1
        for i in range(self.mask + 1):
            if self.slots[i]:
                at = (self.slots[i] >> 32) & wider
                while found[at]:
                    at = (at + 1) & wider
                found[at] = self.slots[i]
        free(self.slots)
        self.slots, self.mask = found, wider
        return 0

    cdef void compact(self) noexcept nogil:
        """Copy the entries to new blocks, and free the old ones; leave all as it is if there is no memory for them."""
        cdef uint8_t **blocks = self.blocks
        cdef bint *owned = self.owned
        cdef uint64_t blocks_count = self.blocks_count, following = self.following, end = self.end
        cdef uint64_t i, units, unit
        cdef const uint8_t *entry
        cdef uint64_t *slots = <uint64_t *>calloc(self.mask + 1, sizeof(uint64_t))
        if slots == NULL:
            return
        self.blocks, self.owned, self.blocks_count, self.following, self.end = NULL, NULL, 0, 0, 0
        for i in range(self.mask + 1):
            if not self.slots[i]:
                continue
            unit = self.slots[i] & UNIT_MASK
            entry = blocks[unit >> BLOCK_SHIFT] + (unit & (BLOCK_UNITS - 1)) * UNIT_BYTES
            units = units_of(key_length(entry), value_length(entry))
            unit = self.new_units(units)
            if not unit:
                free(slots)
                free_blocks(self.blocks, self.owned, self.blocks_count)
                self.blocks, self.owned, self.blocks_count = blocks, owned, blocks_count
                self.following, self.end = following, end
                return
            memcpy(self.place_of(unit), entry, units * UNIT_BYTES)
            slots[i] = self.slots[i] >> 32 << 32 | unit
        free(self.slots)
        self.slots = slots
        self.dead = 0
        free_blocks(blocks, owned, blocks_count)


cdef void free_blocks(uint8_t **blocks, bint *owned, uint64_t count) noexcept nogil:
    cdef uint64_t i
    for i in range(count):
        if owned[i]:
            free(blocks[i])
    free(blocks)
    free(owned)


cdef inline uint64_t units_of(uint64_t key, uint64_t value) noexcept nogil:
    return (8 + key + value + UNIT_BYTES - 1) // UNIT_BYTES


cdef inline uint64_t key_length(const uint8_t *entry) noexcept nogil:
    return (<const uint32_t *>entry)[0]


cdef inline uint64_t value_length(const uint8_t *entry) noexcept nogil:
    return (<const uint32_t *>entry)[1]


cdef inline void write_value(uint8_t *entry, uint64_t length, const Value *value, uint64_t size) noexcept nogil:
    cdef uint8_t *place = entry + 8 + length
    (<uint32_t *>entry)[1] = <uint32_t>size
    if value.is_timestamped:
        set_be64(place, value.timestamp)
        place += TIMESTAMP_BYTES
    memcpy(place, value.data, value.length)


cdef inline const uint8_t *text(bytes data) noexcept:
    return <const uint8_t *>PyBytes_AS_STRING(data)


cdef inline uint32_t hash_of(bytes key) noexcept:
    return sip_hash(text(key), PyBytes_GET_SIZE(key))


cdef inline uint64_t rotated(uint64_t value, int bits) noexcept nogil:
    return value << bits | value >> (64 - bits)


cdef struct Sip:
    uint64_t a, b, c, d


cdef inline void sip_round(Sip *s) noexcept nogil:
    s.a += s.b
    s.c += s.d
    s.b = rotated(s.b, 13) ^ s.a
    s.d = rotated(s.d, 16) ^ s.c
    s.a = rotated(s.a, 32)
    s.c += s.b
    s.a += s.d
    s.b = rotated(s.b, 17) ^ s.c
    s.d = rotated(s.d, 21) ^ s.a
    s.c = rotated(s.c, 32)


cdef uint32_t sip_hash(const uint8_t *data, uint64_t size) noexcept nogil:
    """Return the lower half of SipHash-1-3 of these bytes. Source: Aumasson and Bernstein, SipHash."""
    cdef Sip s
    cdef uint64_t word, i, whole = size & ~(<uint64_t>7)
    s.a = secret_0 ^ initial[0]
    s.b = secret_1 ^ initial[1]
    s.c = secret_0 ^ initial[2]
    s.d = secret_1 ^ initial[3]
    for i in range(0, whole, 8):
        memcpy(&word, data + i, 8)
        s.d ^= word
        sip_round(&s)
        s.a ^= word
    word = size << 56
    for i in range(whole, size):
        word |= <uint64_t>data[i] << (8 * (i - whole))
    s.d ^= word
    sip_round(&s)
    s.a ^= word
    s.c ^= 0xFF
    sip_round(&s)
    sip_round(&s)
    sip_round(&s)
    return <uint32_t>(s.a ^ s.b ^ s.c ^ s.d)


cdef int raise_full() except -1:
    raise MemoryError("no memory for another entry of the store")


cdef inline bint is_within(int64_t size, int64_t start, int64_t length) noexcept nogil:
    return 0 <= length <= size and 0 <= start <= size - length
