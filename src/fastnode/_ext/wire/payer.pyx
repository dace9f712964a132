# Who pays for the calls of a connection.  The stub (payer.pyi) says what everything does.

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcmp

from fastnode._ext.wire.request_text cimport Head, read_head

cdef extern from "<string.h>" nogil:
    void *memmem(const void *text, size_t length, const void *wanted, size_t wanted_length)

cdef enum:
    END_BYTES = 4
    HEADS_MAX = 32              # that are known of a connection


@cython.final
cdef class Payer:
    def __cinit__(self, identify, rules, frozenset left_out not None, Py_ssize_t body_bytes_max):
        self._identify = identify
        self._rules = rules
        self._left_out = left_out
        self._body_bytes_max = body_bytes_max
        self._known = {}
        self._seen = -1

    cdef const char *find_body(
        self, const char *at, const char *end, Py_ssize_t head_bytes_max, Py_ssize_t headers_max, Py_ssize_t body_bytes_max
    ) except? NULL:
        """The start of the body of a simple request whose client is known; NULL otherwise."""
        cdef const char *body
        cdef int64_t version = self._rules.version
        cdef Py_ssize_t last = 0 if self._head is None or version != self._seen else PyBytes_GET_SIZE(self._head)
        cdef bytes head
        cdef tuple known
        # Fast path: the head is the last one again, and so is its client.
        if last and end - at >= last and memcmp(at, PyBytes_AS_STRING(self._head), last) == 0:
            return at + last
        body = <const char *>memmem(at, end - at, b"\r\n\r\n", END_BYTES)
        if body == NULL or body - at > head_bytes_max - headers_max:
            return NULL
        body += END_BYTES
        head = at[:body - at]
        if version != self._seen:
            self._seen = version
            self._known = {}
            self._head = None
        known = self._known.get(head)
        if known is None:
            known = self._identified(head, head_bytes_max, headers_max, body_bytes_max)
            if known is None:
                return NULL
            if len(self._known) >= HEADS_MAX:
                self._known.clear()
            self._known[head] = known
        self._head = head
        self.client = known[0]
        self.length = known[1]
        self.accepted = <bytes>known[2]
        return body

    cdef tuple _identified(
        self, bytes head, Py_ssize_t head_bytes_max, Py_ssize_t headers_max, Py_ssize_t body_bytes_max
    ):
        """Client, length of the body and Accept-Encoding of a simple head; None if it is none, or names no client."""
        cdef tuple found = self._identify(head)
        cdef const char *at
        cdef const char *end
        cdef Head parsed
        if found is None:
            return None
        at = PyBytes_AS_STRING(<bytes?>found[1])
        end = at + PyBytes_GET_SIZE(<bytes>found[1])
        if read_head(at, end, head_bytes_max, headers_max, &parsed) != end:
            return None
        if parsed.length > min(body_bytes_max, self._body_bytes_max):
            return None
        return found[0], parsed.length, None if parsed.accepted == NULL else parsed.accepted[:parsed.accepted_length]

    cdef bint pay(self, str method) except -1:
        """Whether the client may make a call, and has paid for it."""
        return method not in self._left_out and self.client.pay(method)
