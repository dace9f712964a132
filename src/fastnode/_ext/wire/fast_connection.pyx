# The data of one connection.  The stub (fast_connection.pyi) says what everything does.

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t

from fastnode._ext.wire.clock cimport clock_ns
from fastnode._ext.wire.call_meter cimport Traffic
from fastnode._ext.wire.loop_time cimport LoopTime, Share
from fastnode._ext.wire.simple_request cimport SimpleRequests

cdef extern from "<sys/socket.h>" nogil:
    # Of a socket it takes less than write(2), which knows about files.
    ssize_t send(int descriptor, const void *data, size_t length, int flags)
    int MSG_DONTWAIT

cdef enum:
    C_WRITTEN_TO_MAX = 256

WRITTEN_TO_MAX = C_WRITTEN_TO_MAX


def write_each(list descriptors not None, bytes data not None):
    cdef int[C_WRITTEN_TO_MAX] each
    cdef Py_ssize_t[C_WRITTEN_TO_MAX] taken
    cdef Py_ssize_t count = len(descriptors)
    cdef const char *start = PyBytes_AS_STRING(data)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t place
    if count > C_WRITTEN_TO_MAX:
        raise ValueError(f"{count} sockets, more than {C_WRITTEN_TO_MAX}")
    for place in range(count):
        each[place] = descriptors[place]
    with nogil:
        for place in range(count):
            taken[place] = max(0, send(each[place], start, length, MSG_DONTWAIT))
    return [(place, taken[place]) for place in range(count) if taken[place] < length]


@cython.final
cdef class Receiver:
    def __cinit__(
        self,
        SimpleRequests requests,
        Traffic traffic not None,
        Py_ssize_t bytes_max,
        LoopTime loop_time not None,
        Share share not None,
        bytearray buffer not None,
        bytearray small_buffer not None,
    ):
        self._requests = requests
        self._traffic = traffic
        self._bytes_max = bytes_max
        self._loop_time = loop_time
        self._share = share
        self._buffer = self._lent = buffer
        self._small_buffer = small_buffer

    def get_buffer(self, size_hint):
        # Fast path. If: no other waits.  Then: what comes is answered before anything else is read.
        self._lent = self._small_buffer if self._loop_time.is_crowded and not self.has_turn else self._buffer
        return self._lent

    def buffer_updated(self, Py_ssize_t count):
        if not 0 <= count <= PyByteArray_GET_SIZE(self._lent):
            raise ValueError(f"{count} bytes in a buffer of {len(self._lent)}")
        self.has_turn = False
        self._receive(PyByteArray_AS_STRING(self._lent), count, None)

    def open(self, connection, transport, int descriptor=-1):
        self._connection = connection
        self._transport = transport
        self._write = transport.write
        self._descriptor = descriptor

    def close(self):
        self.wake()
        self._connection = self._transport = self._write = None

    cpdef wake(self):
        self.is_resting = self._is_direct = False

    def receive(self, bytes data not None):
        self._receive(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), data)

    cdef int _receive(self, const char *data, Py_ssize_t size, bytes kept) except -1:
        """A burst; ``kept`` is the same, or None as long as nobody else has needed it."""
        cdef SimpleRequests requests = self._requests
        cdef object view
        cdef int64_t started
        if not self.is_resting or not requests.is_open or self._loop_time.is_crowded:
            if self._connection is not None:
                self._connection.receive(data[:size] if kept is None else kept)
            return 0
        requests.payer = self.payer
        requests.started = started = clock_ns()
        view = requests.begin()
        requests.scan(data, size, 0, self._bytes_max, view, started + self._loop_time.slice_ns)
        # Fast path: everything received is answered, so write and wait for more.
        if requests.size == 0 or requests.position != size:
            self._connection.receive_rest(data[:size] if kept is None else kept, requests.out.take(), view, started)
            return 0
        self.begun += requests.count
        self.written_bytes += requests.size
        self._traffic.received_bytes += size
        self._traffic.sent_bytes += requests.size
        self.active_ns = started
        self._send(requests)
        if not self.is_resting and self._connection is not None:
            self._connection.settle()
        self._loop_time.charge_c(self._share, clock_ns() - started)
        return 0

    cdef int _send(self, SimpleRequests requests) except -1:
        """Straight to the system while the transport holds nothing: that saves its queue and a copy."""
        cdef Py_ssize_t sent = 0
        cdef object answers
        if not self._is_direct and self._descriptor >= 0:
            self._is_direct = not self._transport.is_closing() and self._transport.get_write_buffer_size() == 0
        if self._is_direct and requests.out.chunks is None:
            sent = max(0, send(self._descriptor, requests.out.data, requests.size, MSG_DONTWAIT))
            if sent == requests.size:
                requests.out.drop()
                return 0
        self._is_direct = False
        answers = requests.out.take()  # the transport meets errors too
        if type(answers) is bytes:
            self._write(answers[sent:] if sent else answers)
        else:
            self._transport.writelines(answers)
        return 0
