/// What was found out from the texts of statements. It is found out once for each text; all of it is forgotten when it becomes too much.
final class TextPlans<Text: Hashable, Plan> {
    private var known: [Text: Plan] = [:]
    private let capacity = 200

    func plan(for text: Text, making make: () throws -> Plan) rethrows -> Plan {
        if let plan = known[text] { return plan }
        let made = try make()
        if known.count >= capacity { known.removeAll() }
        known[text] = made
        return made
    }

    func removeAll() { known.removeAll() }
}
