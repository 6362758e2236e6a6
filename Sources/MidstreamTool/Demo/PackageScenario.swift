internal import SQLiteConnection

/// A catalogue of software packages, made from the index of the machine's own package manager.
struct PackageScenario: DemoScenario {
    let tables = ["sections", "packages", "dependencies", DemoClock.table]
    let summary: String
    private let names: [String]
    private let sections: Int64

    private static let schema = """
        CREATE TABLE sections(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, packages INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE packages(
            id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT NOT NULL,
            section INTEGER NOT NULL REFERENCES sections(id), size INTEGER, installed INTEGER, maintainer TEXT,
            summary TEXT, stars INTEGER NOT NULL DEFAULT 0, UNIQUE(name, version));
        CREATE INDEX packages_by_section ON packages(section, size);
        CREATE TABLE dependencies(
            id INTEGER PRIMARY KEY AUTOINCREMENT, package INTEGER NOT NULL REFERENCES packages(id), name TEXT NOT NULL,
            condition TEXT);
        CREATE INDEX dependencies_by_package ON dependencies(package);
        CREATE INDEX dependencies_by_name ON dependencies(name);
        """

    /// Writes the index into an empty database.
    init(_ index: PackageIndex, into connection: Connection) throws {
        try connection.execute(script: Self.schema)
        var sections: [String: Int64] = [:]
        var dependencies = 0
        try connection.transaction {
            for package in index.packages {
                let section = sections[package.section] ?? Int64(sections.count + 1)
                if sections.updateValue(section, forKey: package.section) == nil {
                    try connection.execute("INSERT INTO sections(id, name) VALUES (?, ?)", [section, package.section])
                }
                try connection.execute(
                    "INSERT OR IGNORE INTO packages(name, version, section, size, installed, maintainer, summary) "
                        + "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [
                        package.name, package.version, section, package.size, package.installedSize, package.maintainer,
                        package.summary,
                    ]
                )
                guard connection.changes == 1 else { continue }
                let id = connection.lastInsertRowID
                for dependency in package.dependencies {
                    try connection.execute(
                        "INSERT INTO dependencies(package, name, condition) VALUES (?, ?, ?)",
                        [id, dependency.name, dependency.condition]
                    )
                    dependencies += 1
                }
            }
            try connection.execute(
                "UPDATE sections SET packages = (SELECT count(*) FROM packages WHERE section = sections.id)"
            )
        }
        names = index.packages.map(\.name)
        self.sections = Int64(sections.count)
        summary =
            "\(NumberText.grouped(Int64(names.count))) packages of this machine's package index, "
            + "\(NumberText.grouped(Int64(dependencies))) dependencies, \(sections.count) sections"
    }

    private func name(_ random: inout RandomNumbers) -> SQLiteValue {
        .text(names[Int.random(in: names.indices, using: &random)])
    }

    func read(_ random: inout RandomNumbers) -> DemoStatement {
        let packages = Int64(names.count)
        switch random.percent() {
        case ..<30:
            return DemoStatement(
                "SELECT id, name, version, size, stars FROM packages WHERE id = ?",
                random.id(packages)
            )
        case ..<50:
            return DemoStatement(
                "SELECT id, version, summary FROM packages WHERE name = ? ORDER BY version",
                name(&random)
            )
        case ..<65:
            return DemoStatement(
                "SELECT name, size FROM packages WHERE section = ? ORDER BY size DESC, id DESC LIMIT 20",
                random.id(sections)
            )
        case ..<80:
            return DemoStatement(
                "SELECT d.name, d.condition, p.id, p.version FROM dependencies AS d LEFT JOIN packages AS p ON p.name = d.name "
                    + "WHERE d.package = ? ORDER BY d.id, p.id",
                random.id(packages)
            )
        case ..<90:
            return DemoStatement(
                "SELECT count(*), sum(size), max(stars) FROM packages WHERE id BETWEEN ?1 AND ?1 + 100",
                random.id(packages)
            )
        case ..<95: return DemoStatement("SELECT count(*) FROM packages")
        default: return DemoStatement("SELECT name, packages FROM sections ORDER BY packages DESC, id LIMIT 5")
        }
    }

    func write(_ random: inout RandomNumbers) -> [DemoStatement] {
        let id = random.id(Int64(names.count))
        switch random.percent() {
        case ..<35: return [DemoStatement("UPDATE packages SET stars = stars + 1 WHERE id = ?", id)]
        case ..<50:
            return [
                DemoStatement(
                    "UPDATE packages SET summary = summary || '.', stars = stars + 2 WHERE name = ?",
                    name(&random)
                )
            ]
        case ..<65: return insertion(&random, id)
        case ..<75:
            return [
                DemoStatement(
                    "UPDATE sections SET packages = packages - 1 WHERE id = (SELECT section FROM packages WHERE id = ?)",
                    id
                ),
                DemoStatement("DELETE FROM dependencies WHERE package = ?", id),
                DemoStatement("DELETE FROM packages WHERE id = ?", id),
            ]
        case ..<85:
            return [
                DemoStatement(
                    "INSERT INTO packages(name, version, section, size) SELECT name, version, section, size FROM packages "
                        + "WHERE id = ? ON CONFLICT(name, version) DO UPDATE SET stars = stars + 1",
                    id
                )
            ]
        case ..<95:
            return [DemoStatement("UPDATE packages SET installed = installed + 1 WHERE id BETWEEN ?1 AND ?1 + 20", id)]
        default:
            return [
                DemoStatement("UPDATE dependencies SET condition = '>= 1' WHERE package = ?", id),
                // This key exists already: the error must be the one that SQLite gives.
                DemoStatement("INSERT INTO packages(id, name, version, section) VALUES (?, 'again', '1', 1)", id),
                DemoStatement("UPDATE sections SET packages = packages + changes() WHERE id = 1"),
            ]
        }
    }

    /// Inserts a new version of a package, or one that exists already.
    private func insertion(_ random: inout RandomNumbers, _ id: SQLiteValue) -> [DemoStatement] {
        let section = random.id(sections)
        let version = "9.\(Int.random(in: 0..<4, using: &random))"
        return [
            DemoStatement(
                "INSERT OR IGNORE INTO packages(name, version, section, size) VALUES (?, ?, ?, 1000)",
                name(&random),
                .text(version),
                section
            ),
            DemoStatement("UPDATE sections SET packages = packages + changes() WHERE id = ?", section),
            DemoStatement("INSERT INTO dependencies(package, name) VALUES (?, 'libc6')", id),
        ]
    }

    let report = [
        DemoStatement(
            "SELECT section, count(*), sum(size), sum(stars) FROM packages GROUP BY section ORDER BY section"
        ),
        DemoStatement("SELECT count(*), max(id) FROM dependencies"),
    ]

    let invariant = DemoStatement(
        "SELECT (SELECT count(*) FROM packages) - (SELECT sum(packages) FROM sections) AS difference"
    )
}
