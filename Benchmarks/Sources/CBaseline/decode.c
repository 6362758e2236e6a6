#include "CBaseline.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct baseline_decode {
    sqlite3 *db;
    sqlite3_stmt *statement;
};

typedef struct bytes {
    char *start;
    size_t count;
} bytes;

typedef struct message {
    int64_t id;
    int64_t time;
    double score;
    bytes sender;
    bytes text;
    bytes token;
} message;

baseline_decode *baseline_decode_open(const char *path, const char *sql) {
    baseline_decode *decode = calloc(1, sizeof *decode);
    if (decode == 0) return 0;
    if (sqlite3_open_v2(path, &decode->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, 0) != SQLITE_OK
        || sqlite3_exec(decode->db, "PRAGMA cache_size = -200000", 0, 0, 0) != SQLITE_OK
        || sqlite3_prepare_v2(decode->db, sql, -1, &decode->statement, 0) != SQLITE_OK) {
        baseline_decode_close(decode);
        return 0;
    }
    return decode;
}

void baseline_decode_close(baseline_decode *decode) {
    if (decode == 0) return;
    sqlite3_finalize(decode->statement);
    sqlite3_close(decode->db);
    free(decode);
}

static bytes copy(const void *start, int count) {
    bytes result = {malloc((size_t)count + 1), (size_t)count};
    if (result.start == 0) abort();
    if (count > 0) memcpy(result.start, start, (size_t)count);
    result.start[count] = 0;
    return result;
}

int64_t baseline_decode_run(baseline_decode *decode) {
    sqlite3_stmt *statement = decode->statement;
    message *messages = 0;
    size_t count = 0, capacity = 0;
    int code;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        if (count == capacity) {
            capacity = capacity == 0 ? 16 : 2 * capacity;
            messages = realloc(messages, capacity * sizeof *messages);
            if (messages == 0) abort();
        }
        message *current = &messages[count++];
        current->id = sqlite3_column_int64(statement, 0);
        current->time = sqlite3_column_int64(statement, 1);
        current->score = sqlite3_column_double(statement, 2);
        const void *start = sqlite3_column_text(statement, 3);
        current->sender = copy(start, sqlite3_column_bytes(statement, 3));
        start = sqlite3_column_text(statement, 4);
        current->text = copy(start, sqlite3_column_bytes(statement, 4));
        start = sqlite3_column_blob(statement, 5);
        current->token = copy(start, sqlite3_column_bytes(statement, 5));
    }
    sqlite3_reset(statement);
    int64_t sum = code == SQLITE_DONE ? 0 : -1;
    for (size_t index = 0; index < count; index++) {
        message *current = &messages[index];
        if (code == SQLITE_DONE) {
            sum += current->id + current->time + (int64_t)current->score + (int64_t)current->sender.count
                + (int64_t)current->text.count + (int64_t)current->token.count;
        }
        free(current->sender.start);
        free(current->text.start);
        free(current->token.start);
    }
    free(messages);
    return sum;
}
