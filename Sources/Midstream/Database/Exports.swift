// `import Midstream` is enough for all types that the API's declarations mention, such as `Row`, `SQLiteValue`,
// `Arguments` and `SQLiteError`, and for their members.
@_exported public import SQLiteConnection
