#if os(Linux)
    #if canImport(Glibc)
        import Glibc
    #else
        import Musl
    #endif

    /// A terminal on which a program runs.
    final class PseudoTerminal {
        private let master: Int32
        private let pid: pid_t
        /// All that the terminal has shown.
        private(set) var shown = ""

        init(_ program: String, _ arguments: [String]) throws {
            master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
            var (number, unlocked): (Int32, Int32) = (0, 0)
            // TIOCSPTLCK and TIOCGPTN: see ioctl_tty(2).
            guard master >= 0, ioctl(master, 0x4004_5431, &unlocked) == 0, ioctl(master, 0x8004_5430, &number) == 0
            else { throw Subprocess.Failure(message: "no terminal") }
            var actions = Subprocess.Actions()
            posix_spawn_file_actions_init(&actions)
            defer { posix_spawn_file_actions_destroy(&actions) }
            // A process without a terminal gets the first one that it opens: see setsid(2).
            for descriptor in 0...2 as ClosedRange<Int32> {
                posix_spawn_file_actions_addopen(&actions, descriptor, "/dev/pts/\(number)", O_RDWR, 0)
            }
            pid = try Subprocess.spawn(program, arguments, [:], &actions)
        }

        deinit { close(master) }

        /// Whether the terminal shows what is typed.
        var echoes: Bool {
            var settings = termios()
            return tcgetattr(master, &settings) == 0 && settings.c_lflag & tcflag_t(ECHO) != 0
        }

        func type(_ text: String) {
            _ = Array(text.utf8).withUnsafeBytes { write(master, $0.baseAddress, $0.count) }
        }

        func send(_ signal: Int32) { kill(pid, signal) }

        /// Reads until the terminal shows the text; `false` if the text does not come.
        func waitFor(_ text: String) -> Bool {
            for _ in 0..<300 {
                if shown.hasSuffix(text) { return true }
                guard read() else { return shown.hasSuffix(text) }
            }
            return false
        }

        /// - Returns: The program's exit code. If the program does not end within a minute or so, it is killed, and
        ///   this is the code of a killed one.
        func end() -> Int32 {
            for _ in 0..<600 { guard read() else { return Subprocess.wait(for: pid) } }
            kill(pid, SIGKILL)
            return Subprocess.wait(for: pid)
        }

        private static func read(_ descriptor: Int32, _ bytes: inout [UInt8]) -> Int {
            #if canImport(Glibc)
                Glibc.read(descriptor, &bytes, bytes.count)
            #else
                Musl.read(descriptor, &bytes, bytes.count)
            #endif
        }

        /// Reads what the terminal shows within a tenth of a second; `false` if the program has ended.
        private func read() -> Bool {
            var wait = pollfd(fd: master, events: Int16(POLLIN), revents: 0)
            guard poll(&wait, 1, 100) > 0 else { return true }
            var bytes = [UInt8](repeating: 0, count: 4096)
            let count = PseudoTerminal.read(master, &bytes)
            guard count > 0 else { return false }
            shown += String(decoding: bytes[..<count], as: UTF8.self)
            return true
        }
    }
#endif
