/* Scanning of JSON in the spelling that exchanges use: no spaces, no escapes, plain numbers.

   Every function gets the first byte and the end, reads nothing beyond the end, and returns the
   byte after what it recognised, or NULL. What is not recognised is left to the Python code. */

#ifndef PENSTOCK_SCAN_H
#define PENSTOCK_SCAN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define LONGEST_NUMBER 64  /* characters; answers.Text allows as many */
#define MOST_DIGITS 18     /* of an integer: always fits into 64 bits */

typedef struct {
    const char *at;
    Py_ssize_t size;
} Span;

/* Whether two texts are the same. */
static inline int same(Span a, Span b)
{
    return a.size == b.size && !memcmp(a.at, b.at, (size_t)a.size);
}

/* A number to find a text by, eight bytes at a time. */
static inline uint32_t hash_of(Span text)
{
    uint64_t hash = (uint64_t)text.size, word;
    const char *at = text.at, *end = at + text.size;
    for (; end - at >= 8; at += 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, at, (size_t)(end - at));
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(hash >> 32);
}

static inline int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits with at most one point among them, as `numbers.is_plain` has it. */
static inline const char *scan_plain(const char *at, const char *end)
{
    const char *start = at;
    int points = 0;
    while (at < end && (is_digit(*at) || (*at == '.' && !points))) {
        points += *at == '.';
        at++;
    }
    return at - start > points && at - start <= LONGEST_NUMBER ? at : NULL;
}

/* A JSON integer that is not negative. */
static inline const char *scan_whole(const char *at, const char *end, int64_t *value)
{
    const char *start = at;
    int64_t found = 0;
    while (at < end && is_digit(*at) && at - start < MOST_DIGITS)
        found = found * 10 + (*at++ - '0');
    if (at == start || (at < end && is_digit(*at)) || (*start == '0' && at - start > 1))
        return NULL;
    *value = found;
    return at;
}

/* A JSON number without sign and exponent; an integer only as long as it fits into 64 bits. */
static inline const char *scan_bare(const char *at, const char *end)
{
    const char *start = at, *point;
    while (at < end && is_digit(*at))
        at++;
    if (at == start || (*start == '0' && at - start > 1))
        return NULL;
    if (at == end || *at != '.')
        return at - start <= MOST_DIGITS ? at : NULL;
    point = at++;
    while (at < end && is_digit(*at))
        at++;
    return at - point > 1 && at - start <= LONGEST_NUMBER ? at : NULL;
}

/* Text up to a quotation mark, without escapes; ASCII only, unless `any`. */
static inline const char *scan_text(const char *at, const char *end, int any)
{
    while (at < end && *at != '"') {
        unsigned char c = (unsigned char)*at;
        if (c < 0x20 || c == '\\' || (c >= 0x80 && !any))
            return NULL;
        at++;
    }
    return at < end ? at : NULL;
}

/* Whether a plain number is zero. */
static inline int is_zero(Span number)
{
    for (Py_ssize_t i = 0; i < number.size; i++)
        if (number.at[i] != '0' && number.at[i] != '.')
            return 0;
    return 1;
}

/* `["price","quantity"]`, both plain. */
static inline const char *scan_pair(const char *at, const char *end, Span *price, Span *quantity)
{
    const char *stop;
    if (end - at < 2 || at[0] != '[' || at[1] != '"')
        return NULL;
    price->at = at + 2;
    if (!(stop = scan_plain(at + 2, end)) || end - stop < 3 || memcmp(stop, "\",\"", 3))
        return NULL;
    price->size = stop - price->at;
    quantity->at = stop + 3;
    if (!(stop = scan_plain(stop + 3, end)) || end - stop < 2 || memcmp(stop, "\"]", 2))
        return NULL;
    quantity->size = stop - quantity->at;
    return stop + 2;
}

#endif
