/// What would become of the tables that a filter chooses, by their names in the target.
package struct MigrationRehearsal {
    /// Those that would begin to move.
    package var beginning: Set<String> = []
    /// Those that are moving.
    package var moving: Set<String> = []
    /// Those that have moved.
    package var moved: Set<String> = []
}
