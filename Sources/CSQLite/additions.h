// What Swift cannot import of SQLite's header: variadic functions, function-like macros, structs that SQLite extends by
// embedding, and calls that differ between versions. It belongs to no module, so that including it links no library.

#ifndef MIDSTREAM_SQLITE_ADDITIONS_H
#define MIDSTREAM_SQLITE_ADDITIONS_H

#include <stdint.h>
#include <string.h>

/// `sqlite3_db_config` for the options that take an int and report the resulting one.
static inline int midstream_db_config(sqlite3 *db, int option, int value, int *result) {
    return sqlite3_db_config(db, option, value, result);
}

/// Says, while a virtual table is being connected, that its changes fail with a constraint's code before they have changed
/// anything.
static inline int midstream_vtab_support_constraints(sqlite3 *db) {
    return sqlite3_vtab_config(db, SQLITE_VTAB_CONSTRAINT_SUPPORT, 1);
}

/// Says, while a virtual table is being connected, that views and triggers may use it where the schema is not trusted.
static inline void midstream_vtab_trust(sqlite3 *db) {
#ifdef SQLITE_VTAB_INNOCUOUS
    sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
#endif
}

/// Has the next CREATE TABLE of a schema describe the b-tree of page `root` instead of making one; 0 for `root` ends that, and with
/// `isOn` 0 and `root` 1 the connection forgets all that it knows of schemas. SQLite may be built without it: nothing happens then.
///
/// Source: <https://www.sqlite.org/imposter.html>.
static inline int midstream_imposter(sqlite3 *db, const char *schema, int isOn, int root) {
    return sqlite3_test_control(SQLITE_TESTCTRL_IMPOSTER, db, schema, isOn, root);
}

/// A virtual table, as SQLite sees it, followed by the Swift object that implements it.
typedef struct midstream_vtab {
    sqlite3_vtab base;
    void *object;
} midstream_vtab;

/// A cursor of a virtual table, as SQLite sees it, followed by the Swift object that implements it.
typedef struct midstream_vtab_cursor {
    sqlite3_vtab_cursor base;
    void *object;
} midstream_vtab_cursor;

/// `sqlite3_mprintf("%s", text)`, for messages that SQLite frees.
static inline char *midstream_strdup(const char *text) {
    return sqlite3_mprintf("%s", text);
}

/// Syncs one file of a schema: its database file, or (`journal` not 0) its journal or WAL.
/// SQLITE_OK also where the file does not exist: there is nothing to sync then.
static inline int midstream_sync(sqlite3 *db, const char *schema, int journal) {
    sqlite3_file *file = 0;
    int rc = sqlite3_file_control(
        db, schema, journal ? SQLITE_FCNTL_JOURNAL_POINTER : SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc != SQLITE_OK) return rc;
    if (file == 0 || file->pMethods == 0) return SQLITE_OK;
    return file->pMethods->xSync(file, SQLITE_SYNC_FULL);
}

// Settings of the whole process, by variadic calls, before SQLite is initialized.

/// Reads the functions by which SQLite allocates.
static inline int midstream_get_memory_methods(sqlite3_mem_methods *methods) {
    return sqlite3_config(SQLITE_CONFIG_GETMALLOC, methods);
}

/// Sets them; SQLite copies the struct. Connections keep no memory of their own for small objects then.
static inline int midstream_set_memory_methods(const sqlite3_mem_methods *methods) {
    int rc = sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
    return rc != SQLITE_OK ? rc : sqlite3_config(SQLITE_CONFIG_MALLOC, methods);
}

// Encryption. `SQLITE_HAS_CODEC` is defined where SQLCipher takes SQLite's place.

/// Whether this build is made for a library that encrypts.
static inline int midstream_expects_codec(void) {
#ifdef SQLITE_HAS_CODEC
    return 1;
#else
    return 0;
#endif
}

/// Gives a schema's file its key, before the first page is read. Keys that go this way are in no SQL.
static inline int midstream_key(sqlite3 *db, const char *schema, const void *key, int length) {
#ifdef SQLITE_HAS_CODEC
    return sqlite3_key_v2(db, schema, key, length);
#else
    (void)db; (void)schema; (void)key; (void)length;
    return SQLITE_MISUSE;
#endif
}

/// Reads the first bytes of a schema's file by SQLite's own handle: opening and closing the file otherwise would drop
/// the locks that this process has on it. What lies past the end is 0, and the result SQLITE_IOERR_SHORT_READ.
static inline int midstream_read_header(sqlite3 *db, const char *schema, void *bytes, int length) {
    sqlite3_file *file = 0;
    int rc = sqlite3_file_control(db, schema, SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc != SQLITE_OK) return rc;
    if (file == 0 || file->pMethods == 0) return SQLITE_IOERR_SHORT_READ;
    return file->pMethods->xRead(file, bytes, length, 0);
}

/// Overwrites memory, in a way that the compiler does not leave out.
static inline void midstream_wipe(void *bytes, size_t length) {
    volatile unsigned char *next = bytes;
    while (length--) *next++ = 0;
}

// Calls newer than the oldest supported SQLite (3.15). Each has a fallback that is safe, not equal.

/// The collation of constraint `index` of an xBestIndex call; NULL where SQLite cannot tell (before 3.22).
static inline const char *midstream_vtab_collation(sqlite3_index_info *info, int index) {
#if SQLITE_VERSION_NUMBER >= 3022000
    return sqlite3_vtab_collation(info, index);
#else
    (void)info; (void)index;
    return 0;
#endif
}

/// Whether constraint `index` of an xBestIndex call is an IN, whose values come one by one; -1 where SQLite cannot tell
/// (before 3.38).
static inline int midstream_vtab_is_in(sqlite3_index_info *info, int index) {
#if SQLITE_VERSION_NUMBER >= 3038000
    return sqlite3_vtab_in(info, index, -1) != 0;
#else
    (void)info; (void)index;
    return -1;
#endif
}

/// The byte of the text at which the last error of a connection is; -1 where there is none, or SQLite cannot tell (before 3.38).
static inline int midstream_error_offset(sqlite3 *db) {
#if SQLITE_VERSION_NUMBER >= 3038000
    return sqlite3_error_offset(db);
#else
    (void)db;
    return -1;
#endif
}

/// What xBestIndex may leave out: 2 or 3 where of rows that are equal in the columns of the order one is enough; -1 where SQLite
/// cannot tell (before 3.38).
static inline int midstream_vtab_distinct(sqlite3_index_info *info) {
#if SQLITE_VERSION_NUMBER >= 3038000
    return sqlite3_vtab_distinct(info);
#else
    (void)info;
    return -1;
#endif
}

/// Whether a transaction of any of the connection's files, TEMP included, has begun to write; -1 where SQLite cannot tell
/// (before 3.34).
static inline int midstream_is_writing(sqlite3 *db) {
#if SQLITE_VERSION_NUMBER >= 3034000
    return sqlite3_txn_state(db, 0) == SQLITE_TXN_WRITE;
#else
    (void)db;
    return -1;
#endif
}

/// Sets `last_insert_rowid()` where SQLite can (3.18).
static inline void midstream_set_last_insert_rowid(sqlite3 *db, int64_t rowid) {
#if SQLITE_VERSION_NUMBER >= 3018000
    sqlite3_set_last_insert_rowid(db, rowid);
#else
    (void)db; (void)rowid;
#endif
}

/// Prepares with SQLITE_PREPARE_PERSISTENT where SQLite has it (3.20).
static inline int midstream_prepare(
    sqlite3 *db, const char *sql, int length, int persistent, sqlite3_stmt **statement, const char **tail) {
#if SQLITE_VERSION_NUMBER >= 3020000
    return sqlite3_prepare_v3(
        db, sql, length, persistent ? SQLITE_PREPARE_PERSISTENT : 0, statement, tail);
#else
    (void)persistent;
    return sqlite3_prepare_v2(db, sql, length, statement, tail);
#endif
}

/// How often SQLite has prepared the statement anew; -1 where it does not count (before 3.20).
static inline int midstream_preparations(sqlite3_stmt *statement) {
#if SQLITE_VERSION_NUMBER >= 3020000
    return sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 0);
#else
    (void)statement;
    return -1;
#endif
}

/// A keyword of SQLite's grammar; NULL past the last one, and where SQLite cannot tell (before 3.24).
static inline const char *midstream_keyword(int index, int *length) {
#if SQLITE_VERSION_NUMBER >= 3024000
    const char *name = 0;
    if (index >= sqlite3_keyword_count() || sqlite3_keyword_name(index, &name, length) != SQLITE_OK) return 0;
    return name;
#else
    (void)index; (void)length;
    return 0;
#endif
}

static inline int64_t midstream_changes(sqlite3 *db) {
#if SQLITE_VERSION_NUMBER >= 3037000
    return sqlite3_changes64(db);
#else
    return sqlite3_changes(db);
#endif
}

static inline int64_t midstream_total_changes(sqlite3 *db) {
#if SQLITE_VERSION_NUMBER >= 3037000
    return sqlite3_total_changes64(db);
#else
    return sqlite3_total_changes(db);
#endif
}

static inline void midstream_result_changes(sqlite3_context *context, int count, sqlite3_value **values) {
    (void)count; (void)values;
    sqlite3_result_int64(context, midstream_changes(sqlite3_context_db_handle(context)));
}

static inline void midstream_result_total_changes(sqlite3_context *context, int count, sqlite3_value **values) {
    (void)count; (void)values;
    sqlite3_result_int64(context, midstream_total_changes(sqlite3_context_db_handle(context)));
}

/// Defines `changes()` and `total_changes()` as SQLite itself does: a function that has taken the place of a built-in one hides
/// it even when it has been removed.
static inline int midstream_restore_change_counters(sqlite3 *db) {
    int flags = SQLITE_UTF8;
#ifdef SQLITE_INNOCUOUS
    flags |= SQLITE_INNOCUOUS;
#endif
    int rc = sqlite3_create_function_v2(db, "changes", 0, flags, 0, midstream_result_changes, 0, 0, 0);
    if (rc != SQLITE_OK) return rc;
    return sqlite3_create_function_v2(db, "total_changes", 0, flags, 0, midstream_result_total_changes, 0, 0, 0);
}

#endif
