#if defined(__linux__)
#define STUB __attribute__((weak))
STUB int sqlite3_snapshot_get(void *db, const char *schema, void **snapshot) { return 1; }
STUB int sqlite3_snapshot_open(void *db, const char *schema, void *snapshot) { return 1; }
STUB void sqlite3_snapshot_free(void *snapshot) {}
STUB int sqlite3_snapshot_cmp(void *one, void *other) { return 0; }
STUB int sqlite3_snapshot_recover(void *db, const char *schema) { return 1; }
#endif
