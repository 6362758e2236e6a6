// swift-tools-version: 6.2
import PackageDescription

// A package of its own, since the flags are those of a program that is made to be fuzzed. SQLText, which the library
// does not offer as a product, and its checks are links to their folders.
let package = Package(
    name: "midstream-fuzzing",
    platforms: [.macOS(.v15)],
    targets: [
        .systemLibrary(name: "CLibFuzzer"),
        .target(name: "SQLText"),
        .target(name: "OutlineChecks", dependencies: ["SQLText"]),
        .executableTarget(
            name: "OutlineFuzz",
            dependencies: ["CLibFuzzer", "OutlineChecks", "SQLText"],
            linkerSettings: [
                .unsafeFlags(["-sanitize=fuzzer"]),
                // GNU gold fails on it.
                .unsafeFlags(["-use-ld=lld"], .when(platforms: [.linux])),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
    target.swiftSettings = [
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .unsafeFlags(["-sanitize=fuzzer"]),
    ]
}
