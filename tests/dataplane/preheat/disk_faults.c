/* System calls on a share that fail, stop or kill on request. Preloaded into a program by disk_faults.py.
 *
 * DISK_FAULTS_SHARE  the directory whose calls are counted
 * DISK_FAULTS        rules, separated by '|': operation|text in the path|first call|last call|action, each ended by '\n'.
 *                    The operation `change` matches every call that changes the share, `any` matches reads as well.
 * DISK_FAULTS_LOG    a file outside the share, to which each call that changes it is appended
 *
 * Actions, before the call is made: an errno name, `KILL` (of the process group), or `STOP` (of the group's leader and of the
 * calling process; whoever waits for the leader stops the rest).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define RULES 16
struct rule { char operation[16], text[256], action[16]; int first, last, count; };
/* Shared with processes that are forked, so that a rule counts the calls of all of them. */
static struct rule *rules;
static int rule_count, log_fd = -1;
static char share[PATH_MAX];
static size_t share_length;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const struct { const char *name; int number; } errors[] = {
    {"EIO", EIO}, {"ENOSPC", ENOSPC}, {"ESTALE", ESTALE}, {"EDQUOT", EDQUOT}, {"EACCES", EACCES}, {"EROFS", EROFS}};

__attribute__((constructor)) static void begin(void) {
    const char *root = getenv("DISK_FAULTS_SHARE"), *text = getenv("DISK_FAULTS"), *log = getenv("DISK_FAULTS_LOG");
    rules = mmap(NULL, RULES * sizeof *rules, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!root || rules == MAP_FAILED) return;
    snprintf(share, sizeof share, "%s", root);
    share_length = strlen(share);
    if (log) log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    char *copy = strdup(text ? text : ""), *mark, *line = strtok_r(copy, "\n", &mark);
    for (; line && rule_count < RULES; line = strtok_r(NULL, "\n", &mark)) {
        struct rule *rule = &rules[rule_count];
        if (sscanf(line, "%15[^|]|%255[^|]|%d|%d|%15s", rule->operation, rule->text, &rule->first, &rule->last, rule->action) == 5) rule_count++;
    }
    free(copy);
}

/* 0, or the errno that the call has to fail with. */
static int fault(const char *operation, int changes, const char *path) {
    if (!share_length || strncmp(path, share, share_length)) return 0;
    int saved = errno, result = 0;
    pthread_mutex_lock(&lock);
    if (changes && log_fd >= 0) {
        char line[PATH_MAX + 32];
        int length = snprintf(line, sizeof line, "%s %s\n", operation, path + share_length);
        syscall(SYS_write, log_fd, line, length);
    }
    for (int i = 0; i < rule_count; i++) {
        struct rule *rule = &rules[i];
        int matches = !strcmp(rule->operation, "any") || (changes && !strcmp(rule->operation, "change")) || !strcmp(rule->operation, operation);
        if (!matches || (strcmp(rule->text, "*") && !strstr(path, rule->text))) continue;
        rule->count++;
        if (rule->count < rule->first || rule->count > rule->last) continue;
        if (!strcmp(rule->action, "KILL")) kill(0, SIGKILL);
        if (!strcmp(rule->action, "STOP")) {
            /* Not the whole group: another thread may be inside vfork. It would wait for ever for a child that is stopped before
             * its exec, and a process counts as stopped only when each of its threads is. */
            pthread_mutex_unlock(&lock);
            if (getpid() != getpgrp()) kill(getpgrp(), SIGSTOP);
            kill(getpid(), SIGSTOP);
            pthread_mutex_lock(&lock);
            rule->first = INT_MAX;
        }
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
            if (!strcmp(rule->action, errors[e].name)) result = errors[e].number;
    }
    pthread_mutex_unlock(&lock);
    errno = saved;
    return result;
}

static const char *absolute(int directory, const char *path, char *buffer) {
    if (path[0] == '/') return path;
    char link[64];
    ssize_t length;
    if (directory == AT_FDCWD) length = getcwd(buffer, PATH_MAX) ? (ssize_t)strlen(buffer) : -1;
    else { snprintf(link, sizeof link, "/proc/self/fd/%d", directory); length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1); }
    if (length < 0) return path;
    snprintf(buffer + length, PATH_MAX - length, "%s%s", *path ? "/" : "", path);
    return buffer;
}

static int at_path(const char *operation, int changes, int directory, const char *path) {
    char buffer[PATH_MAX];
    return share_length ? fault(operation, changes, absolute(directory, path, buffer)) : 0;
}

static int at_fd(const char *operation, int changes, int fd) {
    char buffer[PATH_MAX], link[64];
    if (!share_length) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1);
    if (length < 0) return 0;
    buffer[length] = 0;
    return fault(operation, changes, buffer);
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define PATH_CALL(type, name, operation, changes, directory, path, parameters, arguments) \
    type name parameters { REAL(name); int code = at_path(operation, changes, directory, path); if (code) { errno = code; return -1; } return real arguments; }
#define FD_CALL(type, name, operation, changes, fd, parameters, arguments) \
    type name parameters { REAL(name); int code = at_fd(operation, changes, fd); if (code) { errno = code; return -1; } return real arguments; }
#define OPEN_CALL(name, directory, path, parameters, arguments) \
    int name parameters { REAL(name); mode_t mode = 0; va_list list; va_start(list, flags); \
        if (flags & (O_CREAT | O_TMPFILE)) mode = va_arg(list, mode_t); va_end(list); \
        int writes = flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC) ? 1 : 0; \
        int code = at_path(writes ? "open" : "look", writes, directory, path); if (code) { errno = code; return -1; } return real arguments; }

OPEN_CALL(open, AT_FDCWD, path, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(open64, AT_FDCWD, path, (const char *path, int flags, ...), (path, flags, mode))
OPEN_CALL(openat, directory, path, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))
OPEN_CALL(openat64, directory, path, (int directory, const char *path, int flags, ...), (directory, path, flags, mode))
PATH_CALL(int, mkdir, "mkdir", 1, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
PATH_CALL(int, mkdirat, "mkdir", 1, directory, path, (int directory, const char *path, mode_t mode), (directory, path, mode))
PATH_CALL(int, rmdir, "rmdir", 1, AT_FDCWD, path, (const char *path), (path))
PATH_CALL(int, unlink, "unlink", 1, AT_FDCWD, path, (const char *path), (path))
PATH_CALL(int, unlinkat, "unlink", 1, directory, path, (int directory, const char *path, int flags), (directory, path, flags))
PATH_CALL(int, rename, "rename", 1, AT_FDCWD, to, (const char *from, const char *to), (from, to))
PATH_CALL(int, renameat, "rename", 1, there, to, (int here, const char *from, int there, const char *to), (here, from, there, to))
PATH_CALL(int, link, "link", 1, AT_FDCWD, to, (const char *from, const char *to), (from, to))
PATH_CALL(int, linkat, "link", 1, there, to, (int here, const char *from, int there, const char *to, int flags), (here, from, there, to, flags))
PATH_CALL(int, truncate64, "truncate", 1, AT_FDCWD, path, (const char *path, off64_t length), (path, length))
PATH_CALL(int, utimensat, "utime", 1, directory, path ? path : "", (int directory, const char *path, const struct timespec times[2], int flags), (directory, path, times, flags))
PATH_CALL(int, fchmodat, "chmod", 1, directory, path, (int directory, const char *path, mode_t mode, int flags), (directory, path, mode, flags))
PATH_CALL(int, chmod, "chmod", 1, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
PATH_CALL(int, stat, "stat", 0, AT_FDCWD, path, (const char *path, struct stat *status), (path, status))
PATH_CALL(int, stat64, "stat", 0, AT_FDCWD, path, (const char *path, struct stat64 *status), (path, status))
PATH_CALL(int, lstat, "stat", 0, AT_FDCWD, path, (const char *path, struct stat *status), (path, status))
PATH_CALL(int, lstat64, "stat", 0, AT_FDCWD, path, (const char *path, struct stat64 *status), (path, status))
PATH_CALL(int, fstatat, "stat", 0, directory, path, (int directory, const char *path, struct stat *status, int flags), (directory, path, status, flags))
PATH_CALL(int, fstatat64, "stat", 0, directory, path, (int directory, const char *path, struct stat64 *status, int flags), (directory, path, status, flags))
FD_CALL(ssize_t, write, "write", 1, fd, (int fd, const void *data, size_t size), (fd, data, size))
FD_CALL(ssize_t, pwrite64, "write", 1, fd, (int fd, const void *data, size_t size, off64_t place), (fd, data, size, place))
FD_CALL(ssize_t, splice, "write", 1, out, (int in, off64_t *from, int out, off64_t *to, size_t size, unsigned int flags), (in, from, out, to, size, flags))
FD_CALL(ssize_t, copy_file_range, "write", 1, out, (int in, off64_t *from, int out, off64_t *to, size_t size, unsigned int flags), (in, from, out, to, size, flags))
FD_CALL(int, fsync, "fsync", 1, fd, (int fd), (fd))
FD_CALL(int, fdatasync, "fsync", 1, fd, (int fd), (fd))
FD_CALL(int, ftruncate64, "truncate", 1, fd, (int fd, off64_t length), (fd, length))
FD_CALL(ssize_t, read, "read", 0, fd, (int fd, void *data, size_t size), (fd, data, size))
FD_CALL(ssize_t, pread64, "read", 0, fd, (int fd, void *data, size_t size, off64_t place), (fd, data, size, place))
