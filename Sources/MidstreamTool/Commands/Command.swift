/// One of the tool's commands.
protocol Command: Sendable, SendableMetatype {
    static var spec: CommandSpec { get }

    /// - Throws: ``UsageError`` if values cannot be understood.
    init(_ arguments: ParsedArguments) throws(UsageError)

    /// - Throws: Whatever goes wrong; the tool shows it.
    func run(_ output: Output) throws -> ExitCode
}
