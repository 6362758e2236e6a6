import SQLiteFeatures
import Testing

extension Trait where Self == ConditionTrait {
    /// Leaves a test out where SQLite lacks what it needs, and says so.
    static func needs(_ feature: SQLiteFeature) -> Self {
        .enabled(if: feature.isAvailable, Comment(rawValue: feature.reason))
    }
}
