#include "CBaseline.h"

#include <sqlite3.h>
#include <stdlib.h>

struct baseline_statements {
    sqlite3 *db;
    sqlite3_stmt *select, *insert, *update, *begin, *begin_write, *commit;
};

static const char *select_sql = "SELECT id, sender, body FROM messages WHERE id = ?";

baseline_statements *baseline_statements_open(const char *path) {
    baseline_statements *own = calloc(1, sizeof *own);
    if (own == 0) return 0;
    if (sqlite3_open_v2(path, &own->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, 0) != SQLITE_OK
        || sqlite3_exec(own->db, "PRAGMA synchronous = NORMAL", 0, 0, 0) != SQLITE_OK
        || sqlite3_prepare_v2(own->db, select_sql, -1, &own->select, 0) != SQLITE_OK
        || sqlite3_prepare_v2(own->db, "INSERT INTO messages VALUES (NULL, ?, ?, ?)", -1, &own->insert, 0) != SQLITE_OK
        || sqlite3_prepare_v2(own->db, "UPDATE messages SET time = ? WHERE id = ?", -1, &own->update, 0) != SQLITE_OK
        || sqlite3_prepare_v2(own->db, "BEGIN", -1, &own->begin, 0) != SQLITE_OK
        || sqlite3_prepare_v2(own->db, "BEGIN IMMEDIATE", -1, &own->begin_write, 0) != SQLITE_OK
        || sqlite3_prepare_v2(own->db, "COMMIT", -1, &own->commit, 0) != SQLITE_OK) {
        baseline_statements_close(own);
        return 0;
    }
    return own;
}

void baseline_statements_close(baseline_statements *own) {
    if (own == 0) return;
    sqlite3_finalize(own->select);
    sqlite3_finalize(own->insert);
    sqlite3_finalize(own->update);
    sqlite3_finalize(own->begin);
    sqlite3_finalize(own->begin_write);
    sqlite3_finalize(own->commit);
    sqlite3_close(own->db);
    free(own);
}

static int run(sqlite3_stmt *statement) {
    int code = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code == SQLITE_DONE;
}

/// Reads one row into texts of its own. Returns their length; -1 on an error.
static int64_t read_row(sqlite3_stmt *statement, int64_t key) {
    sqlite3_bind_int64(statement, 1, key);
    if (sqlite3_step(statement) != SQLITE_ROW) {
        sqlite3_reset(statement);
        return -1;
    }
    char *sender = sqlite3_mprintf("%s", sqlite3_column_text(statement, 1));
    char *body = sqlite3_mprintf("%s", sqlite3_column_text(statement, 2));
    int64_t length = sqlite3_column_bytes(statement, 1) + sqlite3_column_bytes(statement, 2);
    sqlite3_free(sender);
    sqlite3_free(body);
    sqlite3_reset(statement);
    return length;
}

int64_t baseline_statements_select(baseline_statements *own, const int64_t *keys, int count) {
    int64_t length = 0;
    run(own->begin);
    for (int index = 0; index < count; index++) length += read_row(own->select, keys[index]);
    run(own->commit);
    return length;
}

int baseline_statements_insert(baseline_statements *own, const char *sender, const char *body, int count) {
    int isGood = run(own->begin_write);
    for (int index = 0; index < count; index++) {
        sqlite3_bind_int64(own->insert, 1, index);
        sqlite3_bind_text(own->insert, 2, sender, -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(own->insert, 3, body, -1, SQLITE_TRANSIENT);
        isGood &= run(own->insert);
    }
    return isGood & run(own->commit);
}

int baseline_statements_update(baseline_statements *own, const int64_t *keys, int count) {
    int isGood = 1;
    for (int index = 0; index < count; index++) {
        sqlite3_bind_int64(own->update, 1, index);
        sqlite3_bind_int64(own->update, 2, keys[index]);
        isGood &= run(own->begin_write) & run(own->update) & run(own->commit);
    }
    return isGood;
}

void *baseline_connection_open(const char *path) {
    sqlite3 *db = NULL;
    if (sqlite3_open(path, &db) == SQLITE_OK && sqlite3_exec(db, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL) == SQLITE_OK)
        return db;
    sqlite3_close(db);
    return NULL;
}

void baseline_connection_close(void *connection) {
    sqlite3_close(connection);
}
