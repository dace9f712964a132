# What peers put on the wire, cut into pieces.  The stub (peer_frames.pyi) says what everything does.

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp

__all__ = [
    "delimited_messages",
    "discovery_header",
    "read_fields",
    "read_rpc",
    "read_varint",
    "sealed_messages",
    "write_varint",
    "yamux_frames",
]

cdef enum:
    VARINT_BYTES_MAX = 10
    YAMUX_HEAD_BYTES = 12
    YAMUX_DATA = 0
    YAMUX_GO_AWAY = 3
    ID_BYTES_MAX = 64
    # Wire types of protobuf.
    VARINT = 0
    FIXED_64 = 1
    LENGTH = 2
    FIXED_32 = 5
    # Discovery: the head that all packets have, and what follows it.
    DISCOVERY_HEAD_BYTES = 23
    NODE_ID_BYTES = 32
    CHALLENGE_BYTES = 24
    PROOF_BYTES = 97            # signature 64, ephemeral key 33
    RECORD_BYTES_MAX = 300
    # What varint_at returns in place of an offset.
    INCOMPLETE = -1
    TOO_LONG = -2


# ---- numbers ------------------------------------------------------------------------------------


cdef Py_ssize_t varint_at(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, uint64_t *value) noexcept nogil:
    cdef int index
    cdef uint8_t byte
    value[0] = 0
    for index in range(VARINT_BYTES_MAX):
        if at == end:
            return INCOMPLETE
        byte = data[at]
        at += 1
        if index == VARINT_BYTES_MAX - 1 and byte > 1:
            return TOO_LONG
        value[0] |= (<uint64_t>(byte & 0x7F)) << (7 * index)
        if byte < 0x80:
            return at
    return TOO_LONG


cdef uint32_t _u32(const uint8_t *at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | <uint32_t>at[3]


cdef bytes _slice(const uint8_t *data, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char *>data + start, end - start)


cdef int _require_offset(bytes data, Py_ssize_t at) except -1:
    if at < 0 or at > PyBytes_GET_SIZE(data):
        raise ValueError("the offset is outside of the data")
    return 0


def read_varint(bytes data not None, Py_ssize_t at):
    cdef uint64_t value
    _require_offset(data, at)
    at = varint_at(<const uint8_t *>PyBytes_AS_STRING(data), at, PyBytes_GET_SIZE(data), &value)
    if at == TOO_LONG:
        raise ValueError("a number has more than 64 bits")
    return None if at == INCOMPLETE else (value, at)


def write_varint(value):
    cdef uint8_t[VARINT_BYTES_MAX] out
    cdef Py_ssize_t size = 0
    cdef uint64_t rest
    if not isinstance(value, int) or not 0 <= value < 1 << 64:
        raise ValueError("no unsigned number of at most 64 bits")
    rest = value
    while rest > 0x7F:
        out[size] = <uint8_t>(rest & 0x7F) | 0x80
        rest >>= 7
        size += 1
    out[size] = <uint8_t>rest
    return PyBytes_FromStringAndSize(<const char *>out, size + 1)


# ---- frames -------------------------------------------------------------------------------------


def sealed_messages(bytes data not None, Py_ssize_t at, Py_ssize_t count_max):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data), length
    cdef list found = []
    _require_offset(data, at)
    while end - at >= 2 and len(found) < count_max:
        length = (start[at] << 8) | start[at + 1]
        if end - at - 2 < length:
            break
        found.append(_slice(start, at + 2, at + 2 + length))
        at += 2 + length
    return found, at


def delimited_messages(bytes data not None, Py_ssize_t at, Py_ssize_t length_max, Py_ssize_t count_max):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data), behind
    cdef uint64_t length
    cdef list found = []
    _require_offset(data, at)
    if length_max < 0:
        raise ValueError("no length")
    while len(found) < count_max:
        behind = varint_at(start, at, end, &length)
        if behind == INCOMPLETE:
            break
        if behind == TOO_LONG or length > <uint64_t>length_max:
            raise ValueError("a message is longer than allowed")
        if <uint64_t>(end - behind) < length:
            break
        at = behind + <Py_ssize_t>length
        found.append(_slice(start, behind, at))
    return found, at


def yamux_frames(bytes data not None, Py_ssize_t at, Py_ssize_t payload_max, Py_ssize_t count_max):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef const uint8_t *head
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data), payload
    cdef uint32_t number
    cdef list found = []
    _require_offset(data, at)
    while end - at >= YAMUX_HEAD_BYTES and len(found) < count_max:
        head = start + at
        number = _u32(head + 8)
        if head[0] != 0 or head[1] > YAMUX_GO_AWAY:
            raise ValueError("no frame of yamux")
        payload = <Py_ssize_t>number if head[1] == YAMUX_DATA else 0
        if payload > payload_max:
            raise ValueError("a frame is longer than allowed")
        if end - at - YAMUX_HEAD_BYTES < payload:
            break
        at += YAMUX_HEAD_BYTES
        found.append((head[1], (head[2] << 8) | head[3], _u32(head + 4), number, _slice(start, at, at + payload)))
        at += payload
    return found, at


# ---- discovery ----------------------------------------------------------------------------------


def discovery_header(bytes data not None):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t at = DISCOVERY_HEAD_BYTES, end, size
    cdef int flag
    if PyBytes_GET_SIZE(data) < at or memcmp(start, b"discv5\0\1", 8) != 0:
        raise ValueError("no packet of discovery")
    flag = start[8]
    size = (start[21] << 8) | start[22]
    end = at + size
    if PyBytes_GET_SIZE(data) < end:
        raise ValueError("a packet of discovery is not complete")
    nonce = _slice(start, 9, 21)
    if flag == 0 and size == NODE_ID_BYTES:
        return flag, nonce, _slice(start, at, end), b"", b"", b"", end
    if flag == 1 and size == CHALLENGE_BYTES:
        return flag, nonce, b"", _slice(start, at, at + 16), _slice(start, at + 16, end), b"", end
    size -= NODE_ID_BYTES + 2 + PROOF_BYTES
    if flag != 2 or not 0 <= size <= RECORD_BYTES_MAX or start[at + 32] != 64 or start[at + 33] != 33:
        raise ValueError("no packet of discovery")
    return (
        flag,
        nonce,
        _slice(start, at, at + 32),
        _slice(start, at + 34, at + 98),
        _slice(start, at + 98, at + 131),
        _slice(start, at + 131, end),
        end,
    )


# ---- protobuf -----------------------------------------------------------------------------------


cdef Py_ssize_t field_at(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, pb_field *field) except -1:
    """Behind the field at ``at``; ValueError for what is none."""
    cdef uint64_t tag, length
    at = varint_at(data, at, end, &tag)
    if at < 0 or tag >> 3 == 0 or tag >> 3 > 0x1FFFFFFF:
        raise ValueError("no field of protobuf")
    field.number = tag >> 3
    field.kind = tag & 7
    if field.kind == VARINT:
        at = varint_at(data, at, end, &field.value)
        if at < 0:
            raise ValueError("no number of protobuf")
        return at
    if field.kind == LENGTH:
        at = varint_at(data, at, end, &length)
        if at < 0:
            raise ValueError("no length of protobuf")
    elif field.kind == FIXED_64:
        length = 8
    elif field.kind == FIXED_32:
        length = 4
    else:
        raise ValueError("no wire type of protobuf")
    if length > <uint64_t>(end - at):
        raise ValueError("a field of protobuf is longer than its message")
    field.start = at
    field.end = at + <Py_ssize_t>length
    return field.end


def read_fields(bytes data not None, Py_ssize_t count_max):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(data)
    cdef pb_field field
    cdef list found = []
    while at < end:
        at = field_at(start, at, end, &field)
        if len(found) >= count_max:
            raise ValueError("a message of protobuf has more fields than allowed")
        value = field.value if field.kind == VARINT else _slice(start, field.start, field.end)
        found.append((field.number, value))
    return found


# ---- gossip -------------------------------------------------------------------------------------


cdef struct _Limits:
    Py_ssize_t items
    Py_ssize_t ids          # that may still come
    Py_ssize_t topic_bytes
    Py_ssize_t left_out


cdef bint _has_room(list found, _Limits *limits):
    if len(found) < limits.items:
        return True
    limits.left_out += 1
    return False


def read_rpc(bytes data not None, *, Py_ssize_t items_max, Py_ssize_t ids_max, Py_ssize_t topic_bytes_max):
    cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
    cdef Py_ssize_t at = 0, end = PyBytes_GET_SIZE(data)
    cdef pb_field field
    cdef _Limits limits = _Limits(items_max, ids_max, topic_bytes_max, 0)
    cdef list subscriptions = [], messages = [], ihave = [], iwant = [], graft = [], prune = []
    while at < end:
        at = field_at(start, at, end, &field)
        if field.kind != LENGTH:
            continue
        if field.number == 1:
            _read_subscription(start, field.start, field.end, subscriptions, &limits)
        elif field.number == 2:
            _read_message(start, field.start, field.end, messages, &limits)
        elif field.number == 3:
            _read_control(start, field.start, field.end, ihave, iwant, graft, prune, &limits)
    return subscriptions, messages, ihave, iwant, graft, prune, limits.left_out


cdef int _read_subscription(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t end, list found, _Limits *limits
) except -1:
    cdef pb_field field
    cdef bint is_wanted = False
    cdef Py_ssize_t topic = 0, topic_end = 0
    while at < end:
        at = field_at(data, at, end, &field)
        if field.number == 1 and field.kind == VARINT:
            is_wanted = field.value != 0
        elif field.number == 2 and field.kind == LENGTH:
            topic, topic_end = field.start, field.end
    if topic_end - topic > limits.topic_bytes:
        limits.left_out += 1
    elif _has_room(found, limits):
        found.append((bool(is_wanted), _slice(data, topic, topic_end)))
    return 0


cdef int _read_message(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, list found, _Limits *limits) except -1:
    cdef pb_field field
    cdef bint is_bare = True
    cdef Py_ssize_t topic = 0, topic_end = 0, content = 0, content_end = 0
    while at < end:
        at = field_at(data, at, end, &field)
        if field.kind == LENGTH and field.number == 4:
            topic, topic_end = field.start, field.end
        elif field.kind == LENGTH and field.number == 2:
            content, content_end = field.start, field.end
        elif field.number in (1, 3, 5, 6):
            is_bare = False
    if topic_end - topic > limits.topic_bytes:
        limits.left_out += 1
    elif _has_room(found, limits):
        found.append((_slice(data, topic, topic_end), _slice(data, content, content_end), bool(is_bare)))
    return 0


cdef int _read_control(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t end, list ihave, list iwant, list graft, list prune, _Limits *limits
) except -1:
    cdef pb_field field
    while at < end:
        at = field_at(data, at, end, &field)
        if field.kind != LENGTH:
            continue
        if field.number == 1:
            _read_about_topic(data, field.start, field.end, 0, ihave, limits)
        elif field.number == 2:
            _read_ids(data, field.start, field.end, 1, iwant, limits)
        elif field.number == 3:
            _read_about_topic(data, field.start, field.end, 1, graft, limits)
        elif field.number == 4:
            _read_about_topic(data, field.start, field.end, 2, prune, limits)
    return 0


cdef int _read_ids(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t end, uint64_t number, list found, _Limits *limits
) except -1:
    cdef pb_field field
    while at < end:
        at = field_at(data, at, end, &field)
        if field.kind == LENGTH and field.number == number:
            if limits.ids <= 0 or field.end - field.start > ID_BYTES_MAX:
                limits.left_out += 1
            else:
                limits.ids -= 1
                found.append(_slice(data, field.start, field.end))
    return 0


cdef int _read_about_topic(
    const uint8_t *data, Py_ssize_t at, Py_ssize_t end, int kind, list found, _Limits *limits
) except -1:
    """``kind``: 0 ihave, 1 graft, 2 prune."""
    cdef pb_field field
    cdef Py_ssize_t start = at, topic = 0, topic_end = 0
    cdef uint64_t backoff = 0
    cdef list ids = []
    while at < end:
        at = field_at(data, at, end, &field)
        if field.number == 1 and field.kind == LENGTH:
            topic, topic_end = field.start, field.end
        elif field.number == 3 and field.kind == VARINT and kind == 2:
            backoff = field.value
    if topic_end - topic > limits.topic_bytes:
        limits.left_out += 1
        return 0
    if not _has_room(found, limits):
        return 0
    name = _slice(data, topic, topic_end)
    if kind == 0:
        _read_ids(data, start, end, 2, ids, limits)
        found.append((name, ids))
    elif kind == 1:
        found.append(name)
    else:
        found.append((name, backoff))
    return 0
