/// How much is tried of what could be tried without end. `make test` tries it with four builds, of which one is optimized.
enum Sample {
    /// In debug, where each takes several times as long, it is half as many.
    static func size(_ count: Int) -> Int {
        #if DEBUG
            count / 2
        #else
            count
        #endif
    }
}
