# (first, *values): the values that `shape` names of the JSON array from `at` to `end`; None as usual_params.pyi says.
cdef tuple read_params(
    bytes shape, const char *at, const char *end, object first, object tip, Py_ssize_t items_max
)


cdef inline const char *skip_blanks(const char *at, const char *end) noexcept nogil:
    while at < end and (at[0] == c" " or at[0] == c"\n" or at[0] == c"\r" or at[0] == c"\t"):
        at += 1
    return at
