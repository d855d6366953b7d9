/* CRC-32C (Castagnoli, magic 2 batches) and CRC-32 (ISO-HDLC, magic 0 and 1 messages).
 *
 * CRC-32C uses the processor's instruction where there is one (x86-64 SSE 4.2, decided at run time; ARMv8 with the CRC
 * extension, decided at compile time). Everything else goes through slicing-by-8 tables made once at import.
 *
 * The instruction takes three cycles, but a new one can begin in every cycle: the bytes are cut into blocks of three
 * lanes, whose CRCs are computed side by side. A table per lane length moves the CRC of a lane over the zeros that stand
 * for the lane behind it; then the next lane's CRC is added by xor. Source: Mark Adler, crc32c.c; Gopal et al., "Fast
 * CRC Computation for iSCSI Polynomial Using CRC32 Instruction".
 */
#ifndef KCLI_CRC_H
#define KCLI_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc32c_table[8][256];
static uint32_t crc32_table[8][256];
static int crc32c_in_hardware = 0;

/* Bytes of a lane: of blocks of 3 KiB, then of blocks of 384 bytes; multiples of 8. */
#define CRC_LONG_LANE 1024
#define CRC_SHORT_LANE 128
static uint32_t crc32c_over_long[4][256];
static uint32_t crc32c_over_short[4][256];

static void crc_make_table(uint32_t table[8][256], uint32_t polynomial) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int k = 0; k < 8; k++) c = c & 1 ? polynomial ^ (c >> 1) : c >> 1;
        table[0][n] = c;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int k = 1; k < 8; k++) table[k][n] = (table[k - 1][n] >> 8) ^ table[0][table[k - 1][n] & 0xff];
}

static uint32_t crc_sliced(const uint32_t table[8][256], uint32_t crc, const uint8_t *p, size_t n) {
    while (n >= 8) {
        uint32_t lo = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = table[7][lo & 0xff] ^ table[6][(lo >> 8) & 0xff] ^ table[5][(lo >> 16) & 0xff] ^ table[4][lo >> 24] ^
              table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
        p += 8;
        n -= 8;
    }
    while (n--) crc = table[0][(crc ^ *p++) & 0xff] ^ (crc >> 8);
    return crc;
}

/* Let `table` move a CRC over `size` zero bytes, each of its four bytes by a row. The move is linear: bit by bit it is
 * computed, and the moves of a byte's bits are added. */
static void crc_make_shift(uint32_t table[4][256], size_t size) {
    for (int row = 0; row < 4; row++) {
        table[row][0] = 0;
        for (uint32_t bit = 1; bit < 256; bit <<= 1) {
            uint32_t c = bit << 8 * row;
            for (size_t i = 0; i < size; i++) c = crc32c_table[0][c & 0xff] ^ (c >> 8);
            for (uint32_t n = 0; n < bit; n++) table[row][bit + n] = c ^ table[row][n];
        }
    }
}

static inline uint32_t crc_shift(const uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 0xff] ^ table[1][(crc >> 8) & 0xff] ^ table[2][(crc >> 16) & 0xff] ^ table[3][crc >> 24];
}

#if defined(__x86_64__)
#include <nmmintrin.h>
#define CRC_TARGET __attribute__((target("sse4.2,crc32")))
#define crc_word(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
#define crc_byte(crc, byte) _mm_crc32_u8(crc, byte)
static int crc32c_detect(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define CRC_TARGET
#define crc_word(crc, word) __crc32cd(crc, word)
#define crc_byte(crc, byte) __crc32cb(crc, byte)
static int crc32c_detect(void) { return 1; }
#else
static uint32_t crc32c_hardware(uint32_t crc, const uint8_t *p, size_t n) { return crc_sliced(crc32c_table, crc, p, n); }
static int crc32c_detect(void) { return 0; }
#endif

#if defined(CRC_TARGET)
CRC_TARGET static inline uint32_t crc_at(uint32_t crc, const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return crc_word(crc, word);
}

/* The CRC of as many blocks of three lanes as there are; p and n go on behind them. */
CRC_TARGET static inline uint32_t crc_lanes(const uint32_t over[4][256], size_t lane, uint32_t crc, const uint8_t **p,
                                            size_t *n) {
    while (*n >= 3 * lane) {
        const uint8_t *at = *p, *stop = at + lane;
        uint32_t second = 0, third = 0;
        for (; at < stop; at += 8) {
            crc = crc_at(crc, at);
            second = crc_at(second, at + lane);
            third = crc_at(third, at + 2 * lane);
        }
        crc = crc_shift(over, crc_shift(over, crc) ^ second) ^ third;
        *p += 3 * lane;
        *n -= 3 * lane;
    }
    return crc;
}

CRC_TARGET static uint32_t crc32c_hardware(uint32_t crc, const uint8_t *p, size_t n) {
    crc = crc_lanes(crc32c_over_long, CRC_LONG_LANE, crc, &p, &n);
    crc = crc_lanes(crc32c_over_short, CRC_SHORT_LANE, crc, &p, &n);
    for (; n >= 8; p += 8, n -= 8) crc = crc_at(crc, p);
    while (n--) crc = crc_byte(crc, *p++);
    return crc;
}
#endif

static void crc_init(void) {
    crc_make_table(crc32c_table, 0x82f63b78u);
    crc_make_table(crc32_table, 0xedb88320u);
    crc32c_in_hardware = crc32c_detect();
    if (crc32c_in_hardware) {
        crc_make_shift(crc32c_over_long, CRC_LONG_LANE);
        crc_make_shift(crc32c_over_short, CRC_SHORT_LANE);
    }
}

static uint32_t crc32c_of(uint32_t crc, const uint8_t *p, size_t n) {
    return ~(crc32c_in_hardware ? crc32c_hardware(~crc, p, n) : crc_sliced(crc32c_table, ~crc, p, n));
}

static uint32_t crc32_of(uint32_t crc, const uint8_t *p, size_t n) { return ~crc_sliced(crc32_table, ~crc, p, n); }

#endif
