/// What would become of the tables that a filter chooses, by their names in the target.
package struct MigrationRehearsal {
    /// The tables that would begin to move.
    package var beginning: Set<String> = []
    /// The tables that are moving.
    package var moving: Set<String> = []
    /// The tables that have moved.
    package var moved: Set<String> = []
}
