# The words of a request: names of headers, members of a call, and texts of JSON that are passed over.  Everything is
# inline: the loop that reads a request calls it for each word.

from libc.string cimport memchr, memcmp

cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char *left, const char *right, size_t length)

cdef enum:
    NUMBER_DIGITS_MAX = 18      # such an integer has one text only

# Headers that mean something to the framing or to the answer, and may come once.
cdef enum:
    ORDINARY = 0
    HOST = 1
    CONTENT_LENGTH = 2
    ACCEPT_ENCODING = 4
    CONNECTION = 8
    FORBIDDEN = 16

# Members of a call that have been seen.
cdef enum:
    MEMBER_JSONRPC = 1
    MEMBER_METHOD = 2
    MEMBER_ID = 4
    MEMBER_PARAMS = 8


# ---- heads ------------------------------------------------------------------------------------


cdef inline bint is_in_name(char c) noexcept nogil:
    return c"a" <= c <= c"z" or c"A" <= c <= c"Z" or c == c"-" or c"0" <= c <= c"9" or c == c"_"


cdef inline int known_header(const char *name, Py_ssize_t length) noexcept nogil:
    if length == 4:
        return HOST if strncasecmp(name, b"host", 4) == 0 else ORDINARY
    if length == 6:
        return FORBIDDEN if strncasecmp(name, b"expect", 6) == 0 else ORDINARY
    if length == 7:
        return FORBIDDEN if strncasecmp(name, b"upgrade", 7) == 0 else ORDINARY
    if length == 10:
        return CONNECTION if strncasecmp(name, b"connection", 10) == 0 else ORDINARY
    if length == 14:
        return CONTENT_LENGTH if strncasecmp(name, b"content-length", 14) == 0 else ORDINARY
    if length == 15:
        return ACCEPT_ENCODING if strncasecmp(name, b"accept-encoding", 15) == 0 else ORDINARY
    if length == 16:
        if strncasecmp(name, b"content-encoding", 16) == 0 or strncasecmp(name, b"proxy-connection", 16) == 0:
            return FORBIDDEN
    if length == 17 and strncasecmp(name, b"transfer-encoding", 17) == 0:
        return FORBIDDEN
    return ORDINARY


# ---- JSON -------------------------------------------------------------------------------------


cdef inline const char *skip_text(const char *at, const char *end) noexcept nogil:
    """Behind the quotation mark that ends a text of plain characters; NULL if it has others."""
    while at < end and 0x20 <= <unsigned char>at[0] < 0x7f and at[0] != c"\\":
        if at[0] == c'"':
            return at + 1
        at += 1
    return NULL


cdef inline int member_of(const char *name, Py_ssize_t length) noexcept nogil:
    if length == 2:
        return MEMBER_ID if memcmp(name, b"id", 2) == 0 else 0
    if length == 6:
        if memcmp(name, b"method", 6) == 0:
            return MEMBER_METHOD
        return MEMBER_PARAMS if memcmp(name, b"params", 6) == 0 else 0
    return MEMBER_JSONRPC if length == 7 and memcmp(name, b"jsonrpc", 7) == 0 else 0


cdef inline const char *skip_plain_id(const char *at, const char *end) noexcept nogil:
    """Behind an integer of few digits or ``null``; the caller checks what follows."""
    cdef const char *first
    if end - at >= 4 and memcmp(at, b"null", 4) == 0:
        return at + 4
    if at[0] == c"-":
        at += 1
    first = at
    while at < end and c"0" <= at[0] <= c"9":
        at += 1
    if at == first or at - first > NUMBER_DIGITS_MAX or (first[0] == c"0" and at - first > 1):
        return NULL
    return at


cdef inline const char *skip_escaped_text(const char *at, const char *end) noexcept nogil:
    """At the quotation mark that ends a text; NULL if none does."""
    cdef const char *quote = NULL
    cdef const char *escape
    while at < end:
        if quote < at:  # also behind an escaped one; each byte is looked at once for either character
            quote = <const char *>memchr(at, c'"', end - at)
            if quote == NULL:
                return NULL
        escape = <const char *>memchr(at, c"\\", quote - at)
        if escape == NULL:
            return quote
        at = escape + 2
    return NULL


cdef inline const char *skip_array(const char *at, const char *end, Py_ssize_t *depth_left) noexcept nogil:
    """Behind an array whose brackets pair up; a parser checks whether it is JSON inside."""
    cdef Py_ssize_t depth = 0
    if at[0] != c"[":
        return NULL
    while at < end:
        if at[0] == c'"':
            at = skip_escaped_text(at + 1, end)
            if at == NULL:
                return NULL
        elif at[0] == c"[" or at[0] == c"{":
            depth += 1
            depth_left[0] -= 1
            if depth_left[0] < 0:
                return NULL
        elif at[0] == c"]" or at[0] == c"}":
            depth -= 1
            if depth == 0:
                return at + 1 if at[0] == c"]" else NULL
        at += 1
    return NULL
