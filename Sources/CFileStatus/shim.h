// What Swift cannot import of a file's status: Glibc declares `statx` only to programs that ask for it before the first header.

#ifndef MIDSTREAM_FILE_STATUS_H
#define MIDSTREAM_FILE_STATUS_H

#include <stdint.h>

#if defined(__APPLE__)
#include <sys/stat.h>
#elif defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/// When a file was made, by its file system. 0 where that, or the kernel, does not tell, and where there is no file.
static inline int midstream_file_birth(const char *path, int64_t *seconds, int64_t *nanoseconds) {
#if defined(__APPLE__)
    struct stat status;
    if (stat(path, &status) != 0) return 0;
    *seconds = status.st_birthtimespec.tv_sec;
    *nanoseconds = status.st_birthtimespec.tv_nsec;
    return *seconds > 0;
#elif defined(SYS_statx)
    // The kernel's `struct statx`, whose layout is fixed. Its header, and the C library's, would clash with those that Swift imports.
    struct {
        uint32_t mask;
        uint8_t before[76];
        int64_t seconds;
        uint32_t nanoseconds;
        uint8_t after[164];
    } status;
    _Static_assert(sizeof status == 256, "struct statx has 256 bytes");
    const int current_folder = -100;     // AT_FDCWD
    const uint32_t birth = 0x800;        // STATX_BTIME
    if (syscall(SYS_statx, current_folder, path, 0, birth, &status) != 0 || !(status.mask & birth)) return 0;
    *seconds = status.seconds;
    *nanoseconds = status.nanoseconds;
    return 1;
#else
    (void)path, (void)seconds, (void)nanoseconds;
    return 0;
#endif
}

#endif
