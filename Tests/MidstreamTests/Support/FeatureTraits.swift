import SQLiteFeatures
import Testing

extension Trait where Self == ConditionTrait {
    /// Leaves a test out if SQLite lacks what the test needs, and says so.
    static func needs(_ feature: SQLiteFeature) -> Self {
        .enabled(if: feature.isAvailable, Comment(rawValue: feature.reason))
    }
}
