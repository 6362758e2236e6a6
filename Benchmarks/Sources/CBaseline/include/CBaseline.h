// What the benchmarks are measured against: the same work, in plain C.

#ifndef MIDSTREAM_C_BASELINE_H
#define MIDSTREAM_C_BASELINE_H

#include <stdint.h>

typedef struct baseline_decode baseline_decode;

/// Opens the file and prepares the query; NULL where one fails.
baseline_decode *baseline_decode_open(const char *path, const char *sql);

/// Reads all rows of (integer, integer, real, text, text, blob) into structs, whose texts and blobs are copies, and
/// frees them again. Returns a sum over what was read; -1 on an error.
int64_t baseline_decode_run(baseline_decode *decode);

void baseline_decode_close(baseline_decode *decode);

#endif
