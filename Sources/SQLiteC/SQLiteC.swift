// The one SQLite that this build links. Layers above import `SQLiteC`, never a system library by name.
#if SQLCipher
    @_exported public import CSQLCipher
#else
    @_exported public import CSQLite
#endif
