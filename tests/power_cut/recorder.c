/* Records what a process does to the files below a folder, in order: power_cut/recording.py reads it.

   cc -shared -fPIC -o recorder.so recorder.c; LD_PRELOAD=recorder.so, and the process calls record_files().

   One event after the other, little-endian; a path is u32 length and bytes:

     kind u8 'O'  ino u64  flags u8 (1 created, 2 emptied)  path     a file is opened for writing
             'W'  ino u64  offset u64  length u32  bytes             written
             'T'  ino u64  length u64                                cut or made longer
             'S'  ino u64                                            synced: content, and all names that it has
             'D'  path                                               a folder is synced
             'N'  path  path                                         renamed
             'L'  path  path                                         a second name
             'U'  path                                               a name is removed
             'M'  path                                               a folder is made
             'X'  path                                               a folder is removed

   An event is written while no other call of these is under way, and when its own is done. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int trace = -1;
static char folder[PATH_MAX];
static size_t folder_length;
static uint64_t inode_of[FILES]; /* of descriptors of files below the folder; 0: of none */
static uint8_t is_folder[FILES];
static pid_t owner;

/* Begin, with the files below a folder, none of which is open. */
void record_files(const char *watched, const char *to) {
    strncpy(folder, watched, sizeof folder - 1);
    folder_length = strlen(folder);
    trace = (int)syscall(SYS_openat, AT_FDCWD, to, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    owner = getpid();
}

static void put(const void *bytes, size_t count) {
    const char *from = bytes;
    while (count) {
        ssize_t done = syscall(SYS_write, trace, from, count);
        if (done < 0) {
            if (errno == EINTR)
                continue;
            abort();
        }
        from += done;
        count -= (size_t)done;
    }
}

/* The whole path, in one buffer, of what a call names; NULL: not below the folder. */
static const char *full(int directory, const char *path, char *buffer) {
    if (trace < 0 || !path || getpid() != owner)
        return NULL;
    if (path[0] == '/') {
        if (strlen(path) >= PATH_MAX)
            return NULL;
        strcpy(buffer, path);
    } else {
        char link[64];
        ssize_t length;
        if (directory == AT_FDCWD)
            strcpy(link, "/proc/self/cwd");
        else {
            char digits[16];
            int at = 15;
            digits[at] = 0;
            do
                digits[--at] = (char)('0' + directory % 10);
            while (directory /= 10);
            strcpy(link, "/proc/self/fd/");
            strcat(link, digits + at);
        }
        length = readlink(link, buffer, PATH_MAX - 1);
        if (length < 0 || (size_t)length + strlen(path) + 2 > PATH_MAX)
            return NULL;
        buffer[length] = '/';
        strcpy(buffer + length + 1, path);
    }
    if (strncmp(buffer, folder, folder_length) || (buffer[folder_length] != '/' && buffer[folder_length]))
        return NULL;
    return buffer;
}

static size_t add(uint8_t *event, size_t at, const void *bytes, size_t count) {
    memcpy(event + at, bytes, count);
    return at + count;
}

static size_t add_path(uint8_t *event, size_t at, const char *path) {
    uint32_t length = (uint32_t)strlen(path);
    at = add(event, at, &length, 4);
    return add(event, at, path, length);
}

static void tell_path(char kind, const char *path, const char *other) {
    static uint8_t event[2 * PATH_MAX + 16];
    size_t at = add(event, 0, &kind, 1);
    at = add_path(event, at, path);
    if (other)
        at = add_path(event, at, other);
    put(event, at);
}

static void tell_inode(char kind, uint64_t inode, const uint64_t *number) {
    uint8_t event[32];
    size_t at = add(event, 0, &kind, 1);
    at = add(event, at, &inode, 8);
    if (number)
        at = add(event, at, number, 8);
    put(event, at);
}

static void tell_write(uint64_t inode, uint64_t offset, const void *bytes, size_t count) {
    uint8_t event[32];
    uint32_t length = (uint32_t)count;
    size_t at = add(event, 0, "W", 1);
    at = add(event, at, &inode, 8);
    at = add(event, at, &offset, 8);
    at = add(event, at, &length, 4);
    put(event, at);
    put(bytes, count);
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) \
    real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define HELD(result, call) \
    pthread_mutex_lock(&lock); \
    __typeof__(call) result = call; \
    int error = errno
#define DONE(result) \
    pthread_mutex_unlock(&lock); \
    errno = error; \
    return result
#define IS_WATCHED(fd) ((fd) >= 0 && (fd) < FILES && inode_of[fd] && !is_folder[fd] && getpid() == owner)

static int opened(int directory, const char *path, int flags, mode_t mode) {
    char buffer[PATH_MAX];
    struct stat before, after;
    const char *where = full(directory, path, buffer);
    if (!where)
        return (int)syscall(SYS_openat, directory, path, flags, mode);
    pthread_mutex_lock(&lock);
    int was_there = !stat(where, &before);
    int fd = (int)syscall(SYS_openat, directory, path, flags, mode);
    int error = errno;
    if (fd >= 0 && fd < FILES && !fstat(fd, &after)) {
        inode_of[fd] = after.st_ino;
        is_folder[fd] = S_ISDIR(after.st_mode);
        if (!is_folder[fd] && (flags & O_ACCMODE) != O_RDONLY) {
            uint64_t inode = after.st_ino;
            uint8_t kind = (uint8_t)((was_there ? 0 : 1) | (flags & O_TRUNC ? 2 : 0)), event[PATH_MAX + 32];
            size_t at = add(event, 0, "O", 1);
            at = add(event, at, &inode, 8);
            at = add(event, at, &kind, 1);
            put(event, add_path(event, at, where));
        }
    }
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list list; \
        va_start(list, flags); \
        mode = va_arg(list, mode_t); \
        va_end(list); \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int directory, const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(directory, path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
    MODE_OF(flags)
    return opened(directory, path, flags | O_LARGEFILE, mode);
}

int close(int fd) {
    pthread_mutex_lock(&lock);
    if (fd >= 0 && fd < FILES)
        inode_of[fd] = 0;
    int result = (int)syscall(SYS_close, fd), error = errno;
    DONE(result);
}

ssize_t write(int fd, const void *bytes, size_t count) {
    REAL(write);
    if (!IS_WATCHED(fd))
        return real(fd, bytes, count);
    HELD(done, real(fd, bytes, count));
    if (done > 0)
        tell_write(inode_of[fd], (uint64_t)lseek(fd, 0, SEEK_CUR) - (uint64_t)done, bytes, (size_t)done);
    DONE(done);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    ssize_t done = 0;
    REAL(writev);
    if (!IS_WATCHED(fd))
        return real(fd, parts, count);
    for (int i = 0; i < count; i++) {
        ssize_t step = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (step < 0)
            return done ? done : step;
        done += step;
        if ((size_t)step < parts[i].iov_len)
            break;
    }
    return done;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    REAL(pwrite64);
    if (!IS_WATCHED(fd))
        return real(fd, bytes, count, offset);
    HELD(done, real(fd, bytes, count, offset));
    if (done > 0)
        tell_write(inode_of[fd], (uint64_t)offset, bytes, (size_t)done);
    DONE(done);
}

/* Whoever copies so goes on by itself when it is told that it cannot. */
ssize_t sendfile64(int out, int in, off64_t *offset, size_t count) {
    REAL(sendfile64);
    if (!IS_WATCHED(out))
        return real(out, in, offset, count);
    errno = ENOTSOCK;
    return -1;
}

ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t count, unsigned flags) {
    REAL(copy_file_range);
    if (!IS_WATCHED(out))
        return real(in, in_offset, out, out_offset, count, flags);
    errno = ENOSYS;
    return -1;
}

static int synced(int fd, int number) {
    if (fd < 0 || fd >= FILES || !inode_of[fd] || getpid() != owner)
        return (int)syscall(number, fd);
    HELD(done, (int)syscall(number, fd));
    if (!done && is_folder[fd]) {
        char buffer[PATH_MAX];
        if (full(fd, "", buffer)) {
            buffer[strlen(buffer) - 1] = 0;
            tell_path('D', buffer, NULL);
        }
    } else if (!done)
        tell_inode('S', inode_of[fd], NULL);
    DONE(done);
}

int fsync(int fd) { return synced(fd, SYS_fsync); }

int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int ftruncate64(int fd, off64_t length) {
    REAL(ftruncate64);
    if (!IS_WATCHED(fd))
        return real(fd, length);
    HELD(done, real(fd, length));
    uint64_t to = (uint64_t)length;
    if (!done)
        tell_inode('T', inode_of[fd], &to);
    DONE(done);
}

int truncate64(const char *path, off64_t length) {
    char buffer[PATH_MAX];
    struct stat found;
    REAL(truncate64);
    const char *where = full(AT_FDCWD, path, buffer);
    if (!where)
        return real(path, length);
    HELD(done, real(path, length));
    uint64_t to = (uint64_t)length;
    if (!done && !stat(where, &found))
        tell_inode('T', found.st_ino, &to);
    DONE(done);
}

static int named(char kind, int from, const char *path, int to, const char *other, int number) {
    char one[PATH_MAX], two[PATH_MAX];
    const char *first = full(from, path, one), *second = full(to, other, two);
    if (!first || !second)
        return (int)syscall(number, from, path, to, other, 0);
    HELD(done, (int)syscall(number, from, path, to, other, 0));
    if (!done)
        tell_path(kind, first, second);
    DONE(done);
}

int rename(const char *path, const char *other) {
    return named('N', AT_FDCWD, path, AT_FDCWD, other, SYS_renameat2);
}

int renameat(int from, const char *path, int to, const char *other) {
    return named('N', from, path, to, other, SYS_renameat2);
}

int link(const char *path, const char *other) { return named('L', AT_FDCWD, path, AT_FDCWD, other, SYS_linkat); }

int linkat(int from, const char *path, int to, const char *other, int flags) {
    (void)flags;
    return named('L', from, path, to, other, SYS_linkat);
}

static int gone(int directory, const char *path, int flags) {
    char buffer[PATH_MAX];
    const char *where = full(directory, path, buffer);
    if (!where)
        return (int)syscall(SYS_unlinkat, directory, path, flags);
    HELD(done, (int)syscall(SYS_unlinkat, directory, path, flags));
    if (!done)
        tell_path(flags & AT_REMOVEDIR ? 'X' : 'U', where, NULL);
    DONE(done);
}

int unlink(const char *path) { return gone(AT_FDCWD, path, 0); }

int rmdir(const char *path) { return gone(AT_FDCWD, path, AT_REMOVEDIR); }

int unlinkat(int directory, const char *path, int flags) { return gone(directory, path, flags); }

static int made(int directory, const char *path, mode_t mode) {
    char buffer[PATH_MAX];
    const char *where = full(directory, path, buffer);
    if (!where)
        return (int)syscall(SYS_mkdirat, directory, path, mode);
    HELD(done, (int)syscall(SYS_mkdirat, directory, path, mode));
    if (!done)
        tell_path('M', where, NULL);
    DONE(done);
}

int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }

int mkdirat(int directory, const char *path, mode_t mode) { return made(directory, path, mode); }
