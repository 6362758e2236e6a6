// The one SQLite that this build links. Layers above import `SQLiteC`, never a system library by name.
@_exported public import CSQLite
