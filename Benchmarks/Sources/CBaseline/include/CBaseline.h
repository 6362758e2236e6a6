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

typedef struct baseline_statements baseline_statements;

/// Opens a file with a table messages(id INTEGER PRIMARY KEY, time, sender, body) and prepares statements on it; NULL
/// where that fails.
baseline_statements *baseline_statements_open(const char *path);

/// Reads the rows of those keys in one transaction. Returns the length of their texts; a wrong one on an error.
int64_t baseline_statements_select(baseline_statements *own, const int64_t *keys, int count);

/// Inserts so many rows in one transaction. Returns whether it could.
int baseline_statements_insert(baseline_statements *own, const char *sender, const char *body, int count);

/// Updates the rows of those keys, each in a transaction of its own. Returns whether it could.
int baseline_statements_update(baseline_statements *own, const int64_t *keys, int count);

void baseline_statements_close(baseline_statements *own);

/// Opens a file as an application does that knows SQLite's C interface alone. Returns a sqlite3 *; NULL where that fails.
void *baseline_connection_open(const char *path);

void baseline_connection_close(void *connection);

#endif
