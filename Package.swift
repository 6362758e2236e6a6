// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "midstream",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "Midstream", targets: ["Midstream"]),
        .library(name: "MidstreamExtension", type: .dynamic, targets: ["MidstreamExtension"]),
        .library(name: "MidstreamPreparing", targets: ["MidstreamPreparing"]),
        .library(name: "MidstreamTesting", targets: ["MidstreamTesting"]),
        .library(name: "SQLiteConnection", targets: ["SQLiteConnection"]),
        .executable(name: "midstream", targets: ["MidstreamTool"]),
    ],
    traits: [
        .trait(name: "SQLCipher", description: "Link SQLCipher in the place of SQLite, for encrypted databases.")
    ],
    targets: [
        // No pkgConfig: the module map's `link` is enough, and lets another library take SQLite's place.
        .systemLibrary(name: "CSQLite", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CSQLCipher", pkgConfig: "sqlcipher", providers: [.apt(["libsqlcipher-dev"])]),
        .systemLibrary(name: "CFileStatus"),
        .target(
            name: "SQLiteC",
            dependencies: ["CSQLite", .target(name: "CSQLCipher", condition: .when(traits: ["SQLCipher"]))]
        ),
        .target(name: "SQLText"),
        .target(name: "SQLiteConnection", dependencies: ["SQLText", "SQLiteC"]),
        .target(name: "Midstream", dependencies: ["CFileStatus", "SQLText", "SQLiteConnection"]),
        .target(
            name: "MidstreamExtension",
            dependencies: ["Midstream", "MidstreamPreparing", "SQLiteConnection", "SQLiteC"]
        ),
        .target(name: "MidstreamPreparing", dependencies: ["Midstream", "SQLiteConnection"]),
        .target(name: "MidstreamTesting", dependencies: ["Midstream", "SQLiteConnection", "SQLiteC"]),
        .executableTarget(name: "MidstreamTool", dependencies: ["Midstream", "SQLText", "SQLiteConnection"]),
        .executableTarget(
            name: "MidstreamTorture",
            dependencies: ["Midstream", "SQLiteConnection"],
            path: "Tests/Torture"
        ),
        .executableTarget(
            name: "PreparingCheck",
            dependencies: ["Midstream", "MidstreamPreparing", "SQLiteConnection", "SQLiteC"],
            path: "Tests/Preparing"
        ),
        .target(name: "SQLiteFeatures", dependencies: ["SQLiteC"], path: "Tests/SQLiteFeatures"),
        .target(name: "SQLCorpus", dependencies: ["SQLText", "SQLiteFeatures"], path: "Tests/SQLCorpus"),
        .target(name: "OutlineChecks", dependencies: ["SQLText"], path: "Tests/OutlineChecks"),
        .testTarget(
            name: "SQLTextTests",
            dependencies: ["SQLText", "SQLiteC", "SQLiteFeatures", "SQLCorpus", "OutlineChecks"]
        ),
        .testTarget(name: "SQLiteConnectionTests", dependencies: ["SQLiteConnection", "SQLiteC"]),
        .testTarget(
            name: "MidstreamTests",
            dependencies: [
                "Midstream", "MidstreamTesting", "SQLText", "SQLiteConnection", "SQLiteC", "SQLiteFeatures",
                "SQLCorpus",
            ],
            exclude: ["SQLLogic/Scripts", "Versions/Kept"]
        ),
        // No dependency on PreparingCheck: MidstreamPreparing would take the place of sqlite3_prepare in all tests.
        .testTarget(
            name: "MidstreamToolTests",
            dependencies: ["Midstream", "MidstreamTool", "MidstreamTorture", "SQLiteConnection"]
        ),
    ],
    swiftLanguageModes: [.v6]
)

// One list of settings for every Swift target, so that none is held to less than the others.
for target in package.targets where target.type != .system {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ]
}
