from libc.stdint cimport int64_t

from fastnode._ext.wire.call_meter cimport Traffic
from fastnode._ext.wire.loop_time cimport LoopTime, Share
from fastnode._ext.wire.payer cimport Payer
from fastnode._ext.wire.simple_request cimport SimpleRequests


cdef class Receiver:
    cdef:
        SimpleRequests _requests    # None: nothing is answered here
        Traffic _traffic
        Py_ssize_t _bytes_max
        LoopTime _loop_time
        Share _share
        bytearray _buffer
        bytearray _small_buffer
        bytearray _lent             # which of them gets what is read next
        object _connection          # None before it is open and when it is closed
        object _transport
        object _write
        int _descriptor             # of the transport's socket; -1: there is none
        bint _is_direct             # the transport holds nothing
        public Payer payer          # None: calls are free
        public bint is_resting
        public bint has_turn
        public int64_t begun
        public int64_t written_bytes
        public int64_t active_ns

    cdef int _receive(self, const char *data, Py_ssize_t size, bytes kept) except -1
    cpdef wake(self)
    cdef int _send(self, SimpleRequests requests) except -1
