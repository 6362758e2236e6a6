// SQLiteConnection
