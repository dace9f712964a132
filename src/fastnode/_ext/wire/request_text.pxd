# A simple request read in place, without Python: its head, its call or its batch of calls.  Everything is inline and is
# called for each request or each word of it; NULL means that it is not simple, or not whole.

from libc.string cimport memchr, memcmp

from fastnode._ext.wire.usual_params cimport skip_blanks

cdef extern from "<strings.h>" nogil:
    int strncasecmp(const char *left, const char *right, size_t length)

cdef enum:
    NUMBER_DIGITS_MAX = 18      # such an integer has one text only
    LENGTH_DIGITS_MAX = 9
    REQUEST_LINE_BYTES = 17

# Headers that mean something to the framing or to the answer, and may come once.
cdef enum:
    ORDINARY = 0
    HOST = 1
    CONTENT_LENGTH = 2
    ACCEPT_ENCODING = 4
    CONNECTION = 8
    FORBIDDEN = 16
    ORIGIN = 32

# Members of a call that have been seen.
cdef enum:
    MEMBER_JSONRPC = 1
    MEMBER_METHOD = 2
    MEMBER_ID = 4
    MEMBER_PARAMS = 8


# A head that has been read; pointers into the burst, which outlives it.
cdef struct Head:
    Py_ssize_t length           # of the body
    const char *accepted        # the value of Accept-Encoding; NULL: none given
    Py_ssize_t accepted_length
    int seen


# One call; pointers as above.
cdef struct Call:
    const char *name
    Py_ssize_t name_length
    const char *id
    Py_ssize_t id_length
    const char *params          # NULL: none given
    Py_ssize_t params_length
    bint is_empty               # params: none, or an array of none


# ---- heads ------------------------------------------------------------------------------------


cdef inline bint is_in_name(char c) noexcept nogil:
    return c"a" <= c <= c"z" or c"A" <= c <= c"Z" or c == c"-" or c"0" <= c <= c"9" or c == c"_"


cdef inline int known_header(const char *name, Py_ssize_t length) noexcept nogil:
    if length == 4:
        return HOST if strncasecmp(name, b"host", 4) == 0 else ORDINARY
    if length == 6:
        if strncasecmp(name, b"origin", 6) == 0:
            return ORIGIN
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


cdef inline const char *read_head(
    const char *at, const char *end, Py_ssize_t head_bytes_max, Py_ssize_t headers_max, Head *head
) noexcept nogil:
    """The start of the body."""
    cdef const char *start = at
    cdef Py_ssize_t headers = 0
    if end - at < REQUEST_LINE_BYTES or memcmp(at, b"POST / HTTP/1.1\r\n", REQUEST_LINE_BYTES) != 0:
        return NULL
    at += REQUEST_LINE_BYTES
    head.length = head.accepted_length = head.seen = 0
    head.accepted = NULL
    while True:
        if end - at < 2:
            return NULL
        if at[0] == c"\r":
            break
        headers += 1
        at = read_header(at, end, head)
        # Each header counts for up to one byte more than it has.
        if at == NULL or headers > headers_max or at - start + headers > head_bytes_max:
            return NULL
    if at[1] != c"\n" or not head.seen & HOST or not head.seen & CONTENT_LENGTH:
        return NULL
    return at + 2


cdef inline const char *read_header(const char *at, const char *end, Head *head) noexcept nogil:
    """The start of the next line."""
    cdef const char *name = at
    cdef const char *value
    cdef const char *stop
    cdef int known
    while at < end and is_in_name(at[0]):
        at += 1
    if at == name or at == end or at[0] != c":":
        return NULL
    known = known_header(name, at - name)
    if known == FORBIDDEN or head.seen & known:
        return NULL
    head.seen |= known
    at += 1
    while at < end and at[0] == c" ":
        at += 1
    value = at
    while at < end and 0x20 <= <unsigned char>at[0] < 0x7f:
        at += 1
    stop = at
    if end - at < 2 or at[0] != c"\r" or at[1] != c"\n":
        return NULL
    if known != ORDINARY and not read_value(value, stop, known, head):
        return NULL
    return stop + 2


cdef inline bint read_value(const char *at, const char *stop, int known, Head *head) noexcept nogil:
    """Whether the value of a header that means something is understood."""
    cdef Py_ssize_t length = stop - at
    if length == 0 or (stop - 1)[0] == c" ":
        return False
    if known == CONNECTION:
        return length == 10 and strncasecmp(at, b"keep-alive", 10) == 0
    if known == ACCEPT_ENCODING:
        head.accepted = at
        head.accepted_length = length
    if known == CONTENT_LENGTH:
        if length > LENGTH_DIGITS_MAX:
            return False
        while at < stop:
            if not c"0" <= at[0] <= c"9":
                return False
            head.length = head.length * 10 + (at[0] - c"0")
            at += 1
    return True


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


# ---- calls ------------------------------------------------------------------------------------


cdef inline const char *read_call(const char *at, const char *end, Py_ssize_t depth_left, Call *call) noexcept nogil:
    """Behind a call with an id, each member at most once and none but the four."""
    cdef int seen = 0
    cdef int member
    cdef const char *start
    call.params = NULL
    call.params_length = 0
    call.is_empty = True
    at = skip_blanks(at, end)
    if at == end or at[0] != c"{":
        return NULL
    while True:
        at = skip_blanks(at + 1, end)
        if at == end or at[0] != c'"':
            return NULL
        start = at + 1
        at = skip_text(start, end)
        if at == NULL:
            return NULL
        member = member_of(start, at - 1 - start)
        if member == 0 or seen & member:
            return NULL
        seen |= member
        at = skip_blanks(at, end)
        if at == end or at[0] != c":":
            return NULL
        start = skip_blanks(at + 1, end)
        if start == end:
            return NULL
        if member == MEMBER_PARAMS:
            at = skip_array(start, end, &depth_left)
            if at == NULL:
                return NULL
            call.params = start
            call.params_length = at - start
            call.is_empty = skip_blanks(start + 1, at) == at - 1
        elif start[0] == c'"':
            at = skip_text(start + 1, end)
            if at == NULL:
                return NULL
            if member == MEMBER_METHOD:
                call.name = start + 1
                call.name_length = at - start - 2
                if call.name_length == 0:
                    return NULL
            elif member == MEMBER_ID:
                call.id = start
                call.id_length = at - start
            elif at - start != 5 or memcmp(start, b'"2.0"', 5) != 0:
                return NULL
        elif member == MEMBER_ID:
            at = skip_plain_id(start, end)
            if at == NULL:
                return NULL
            call.id = start
            call.id_length = at - start
        else:
            return NULL
        at = skip_blanks(at, end)
        if at == end:
            return NULL
        if at[0] == c"}":
            break
        if at[0] != c",":
            return NULL
    if seen & MEMBER_METHOD == 0 or seen & MEMBER_ID == 0:
        return NULL
    return at + 1
