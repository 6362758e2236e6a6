// Stands in for SQLite's snapshots, which some builds of SQLite lack. GRDB does without them if they fail.
