// swift-tools-version: 6.2
import PackageDescription

// With MIDSTREAM_SQLCIPHER=1 in the environment, all of it is measured with SQLCipher in SQLite's place.
let usesCipher = Context.environment["MIDSTREAM_SQLCIPHER"] == "1"

// A package of its own, so that users of Midstream never resolve or build it.
let package = Package(
    name: "midstream-benchmarks",
    platforms: [.macOS(.v15)],
    products: [.executable(name: "midstream-bench", targets: ["MidstreamBench"])],
    dependencies: [.package(name: "midstream", path: "..", traits: usesCipher ? ["SQLCipher"] : [])],
    targets: [
        .target(name: "CBaseline", linkerSettings: [.linkedLibrary(usesCipher ? "sqlcipher" : "sqlite3")]),
        .executableTarget(
            name: "MidstreamBench",
            dependencies: [
                "CBaseline",
                .product(name: "Midstream", package: "midstream"),
                .product(name: "SQLiteConnection", package: "midstream"),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.name != "CBaseline" {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
    ]
}
