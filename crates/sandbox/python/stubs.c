/* Functions that the compiler's headers declare and its WASI library lacks, and one that it has. Nothing of what the former
 * stand for exists in a guest: each says so by the error that its caller expects. */
#include <errno.h>
#include <stddef.h>

/* The library's own goes to the text's end before it begins to look. CPython reads a source with it line by line, which then
 * takes time by the square of the source's length: a minute for a long one. */
char *strchr(const char *text, int wanted) {
  while (*text != (char)wanted)
    if (!*text++) return NULL;
  return (char *)text;
}

#define ABSENT(declaration) \
  declaration {             \
    errno = ENOSYS;         \
    return -1;              \
  }

ABSENT(int epoll_create1(int flags))
ABSENT(int epoll_ctl(int epoll, int op, int fd, void *event))
ABSENT(int epoll_wait(int epoll, void *events, int room, int timeout))
ABSENT(int setgroups(unsigned long count, const void *groups))
ABSENT(int timerfd_create(int clock, int flags))
ABSENT(int timerfd_settime(int fd, int flags, const void *to, void *from))
ABSENT(int timerfd_gettime(int fd, void *out))

int *__h_errno_location(void) {
  static int value;
  return &value;
}
void *gethostbyaddr(const void *address, unsigned length, int family) { return NULL; }
void *gethostbyname(const char *name) { return NULL; }
void *getprotobyname(const char *name) { return NULL; }
void *getservbyname(const char *name, const char *protocol) { return NULL; }
void *getservbyport(int port, const char *protocol) { return NULL; }
const char *hstrerror(int error) { return "a guest has no network"; }

char *gettext(const char *text) { return (char *)text; }
char *dgettext(const char *domain, const char *text) { return (char *)text; }
char *dcgettext(const char *domain, const char *text, int category) { return (char *)text; }
char *textdomain(const char *domain) { return (char *)domain; }
char *bindtextdomain(const char *domain, const char *folder) { return (char *)folder; }
