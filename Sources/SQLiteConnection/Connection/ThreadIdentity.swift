#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#elseif canImport(Musl)
    internal import Musl
#endif

/// Identifies a running thread.
package struct ThreadIdentity: Equatable, Sendable {
    private let address: UInt

    /// The calling thread.
    package static var current: ThreadIdentity {
        #if canImport(Glibc)
            ThreadIdentity(address: UInt(pthread_self()))
        #else
            ThreadIdentity(address: UInt(bitPattern: pthread_self()))
        #endif
    }
}
