// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that Midstream itself keeps no dependency. MIDSTREAM_GRDB in the environment names a checkout of GRDB 7, whose
// folder is called GRDB.swift, as git calls it.
let grdb: Package.Dependency =
    Context.environment["MIDSTREAM_GRDB"].map { .package(path: $0) }
    ?? .package(url: "https://github.com/groue/GRDB.swift.git", from: "7.8.0")

let package = Package(
    name: "midstream-grdb",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "MidstreamGRDB", targets: ["MidstreamGRDB"])],
    dependencies: [.package(name: "midstream", path: "../.."), grdb],
    targets: [
        .target(
            name: "MidstreamGRDB",
            dependencies: [
                .product(name: "GRDB", package: "GRDB.swift"), .product(name: "Midstream", package: "midstream"),
                .product(name: "MidstreamPreparing", package: "midstream"),
                .product(name: "SQLiteConnection", package: "midstream"),
            ]
        ),
        // GRDB on Linux needs functions that some distributions leave out of SQLite.
        .target(name: "SnapshotStubs", path: "Tests/SnapshotStubs"),
        .testTarget(name: "MidstreamGRDBTests", dependencies: ["MidstreamGRDB", "SnapshotStubs"]),
    ],
    swiftLanguageModes: [.v6]
)
