/* CRC-32C (Castagnoli, magic 2 batches) and CRC-32 (ISO-HDLC, magic 0 and 1 messages).
 *
 * CRC-32C uses the processor's instruction where there is one (x86-64 SSE 4.2, decided at run time; ARMv8 with the CRC
 * extension, decided at compile time). Everything else goes through slicing-by-8 tables made once at import.
 */
#ifndef KCLI_CRC_H
#define KCLI_CRC_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc32c_table[8][256];
static uint32_t crc32_table[8][256];
static int crc32c_in_hardware = 0;

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

#if defined(__x86_64__)
#include <nmmintrin.h>
__attribute__((target("sse4.2,crc32"))) static uint32_t crc32c_hardware(uint32_t crc, const uint8_t *p, size_t n) {
    uint64_t c = crc;
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = _mm_crc32_u64(c, word);
        p += 8;
        n -= 8;
    }
    while (n--) c = _mm_crc32_u8((uint32_t)c, *p++);
    return (uint32_t)c;
}
static int crc32c_detect(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("sse4.2") != 0;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
static uint32_t crc32c_hardware(uint32_t crc, const uint8_t *p, size_t n) {
    while (n >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        crc = __crc32cd(crc, word);
        p += 8;
        n -= 8;
    }
    while (n--) crc = __crc32cb(crc, *p++);
    return crc;
}
static int crc32c_detect(void) { return 1; }
#else
static uint32_t crc32c_hardware(uint32_t crc, const uint8_t *p, size_t n) { return crc_sliced(crc32c_table, crc, p, n); }
static int crc32c_detect(void) { return 0; }
#endif

static void crc_init(void) {
    crc_make_table(crc32c_table, 0x82f63b78u);
    crc_make_table(crc32_table, 0xedb88320u);
    crc32c_in_hardware = crc32c_detect();
}

static uint32_t crc32c_of(uint32_t crc, const uint8_t *p, size_t n) {
    return ~(crc32c_in_hardware ? crc32c_hardware(~crc, p, n) : crc_sliced(crc32c_table, ~crc, p, n));
}

static uint32_t crc32_of(uint32_t crc, const uint8_t *p, size_t n) { return ~crc_sliced(crc32_table, ~crc, p, n); }

#endif
