internal import Synchronization

/// The keys that connections of this process have derived from passphrases.
///
/// However many connections open a file, its key is derived once. When the last of them closes, the key is wiped, and
/// with it the passphrase by which the key is found.
enum KeyCache {
    /// A derived key. Hold it for as long as the connection is open.
    final class Key: Sendable {
        let secret: SecretBytes
        fileprivate let passphrase: SecretBytes
        fileprivate let parameters: KeyDerivation.Parameters

        fileprivate init(_ secret: SecretBytes, _ passphrase: SecretBytes, _ parameters: KeyDerivation.Parameters) {
            self.secret = secret
            self.passphrase = passphrase
            self.parameters = parameters
        }
    }

    private struct Entry {
        weak var key: Key?
    }

    private static let entries = Mutex<[Entry]>([])
    /// Only one key is derived at a time: a thread that wants a key which is being derived waits for it, and does not
    /// derive it too.
    private static let derivation = Mutex(())
    private static let derivations = Atomic(0)

    /// How many keys have been derived since the process began.
    static var derivationCount: Int { derivations.load(ordering: .relaxed) }

    /// The key of a passphrase; `nil` if SQLCipher has to derive it itself.
    static func key(_ passphrase: SecretBytes, _ parameters: KeyDerivation.Parameters) -> Key? {
        if let key = known(passphrase, parameters) { return key }
        return derivation.withLock { _ in
            if let key = known(passphrase, parameters) { return key }
            guard let secret = KeyDerivation.deriveKey(passphrase, parameters) else { return nil }
            derivations.add(1, ordering: .relaxed)
            let key = Key(secret, passphrase, parameters)
            entries.withLock { $0.append(Entry(key: key)) }
            return key
        }
    }

    private static func known(_ passphrase: SecretBytes, _ parameters: KeyDerivation.Parameters) -> Key? {
        entries.withLock { entries in
            entries.removeAll { $0.key == nil }
            return entries.lazy.compactMap(\.key).first { $0.parameters == parameters && $0.passphrase == passphrase }
        }
    }
}
