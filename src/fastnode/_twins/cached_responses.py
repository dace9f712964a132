"""Results of calls, kept or made, in plain Python: the readable form of the cached_responses kernel.

The stub ``fastnode/_ext/wire/cached_responses.pyi`` says what everything does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from fastnode._twins import usual_params
from fastnode._twins.packed import Packed
from fastnode.errors import LeftToStrictPath

__all__ = ["CachedResponses"]

_NO_PARAMS: Final = re.compile(rb"\[[ \t\n\r]*\]")
#: Results of longer params are not kept.
_KEY_BYTES_MAX: Final = 8192
#: Longer params of an unusual form are left to who asks for their memory first.
_READ_BYTES_MAX: Final = 1024
#: Of a cached response beside its bytes.
_KEPT_OVERHEAD: Final = 200
_SHIFTED_BYTES: Final = 512  # of what is packed by the kernel
#: Params that are remembered to have been asked for, each at the place of the last bits of its hash.
_ASKED_COUNT: Final = 4096
#: No result takes more than this share of the memory.
_SHARES: Final = 8
#: Calls of a batch that are looked at together.
_AHEAD_MAX: Final = 32


class _Method:
    """What is known of a method, and the results that are kept of it."""

    def __init__(
        self,
        name: str,
        *,
        keeps: bool,
        shape: bytes | None,
        handler: Callable[..., bytes | None] | None,
        items_max: int,
        read: Callable[[Any, bytes | None], bytes | None] | None,
    ) -> None:
        self.name = name
        self.keeps = keeps
        self.shape = shape
        self.handler = handler
        self.items_max = items_max
        self.prepare: Callable[[list[tuple[Any, ...]]], None] | None = getattr(handler, "prepare", None)
        self.read = read
        self.bare: bytes | None = None
        self.young: dict[bytes, bytes] = {}
        self.old: dict[bytes, bytes] = {}


class CachedResponses:
    def __init__(
        self,
        *,
        bytes_max: int,
        result_bytes_max: int,
        find_block: Callable[..., int | None],
    ) -> None:
        self._bytes_max = bytes_max
        self._result_bytes_max = result_bytes_max
        self._find_block = find_block
        self._methods: dict[str, _Method] = {}
        self._asked = [0] * _ASKED_COUNT
        self._packed: dict[bytes, Packed] = {}
        self._packed_before: dict[bytes, Packed] = {}
        self._tip = 0
        self.kept_bytes = 0
        self.is_cached = False
        self.outcome: bytes | Exception | None = None
        #: Methods and params of the calls of the batch being answered that have not been looked at.
        self.batch: list[tuple[str, bytes | None]] = []
        self.hit_count = self.miss_count = 0

    def add_method(
        self,
        name: str,
        *,
        keeps: bool,
        shape: bytes | None,
        handler: Callable[..., bytes | None] | None,
        items_max: int,
        read: Callable[[Any, bytes | None], bytes | None] | None,
    ) -> None:
        self._methods[name] = _Method(name, keeps=keeps, shape=shape, handler=handler, items_max=items_max, read=read)

    def forget(self, tip: int) -> None:
        self._tip = tip
        self.kept_bytes = 0
        self._packed, self._packed_before = {}, {}
        for method in self._methods.values():
            method.bare, method.young, method.old = None, {}, {}

    def keep(self, name: str, params: bytes | None, result: bytes) -> None:
        method = self._methods.get(name)
        if method is None or not method.keeps:
            return
        if params is None or _NO_PARAMS.fullmatch(params):
            method.bare = result
        else:
            self._keep(method, params, result)

    def _keep(self, method: _Method, params: bytes, result: bytes) -> None:
        size = len(params) + len(result) + _KEPT_OVERHEAD
        if len(params) > _KEY_BYTES_MAX or size > self._bytes_max // _SHARES:
            return
        self._count_kept(size)
        method.young[params] = result
        self.is_cached = True

    def _count_kept(self, size: int) -> None:
        self.kept_bytes += size
        if self.kept_bytes > self._bytes_max // 2:
            self.kept_bytes = size
            self._packed, self._packed_before = {}, self._packed
            for each in self._methods.values():
                each.old, each.young = each.young, {}

    def _count_look_up(self, method: _Method, *, is_hit: bool) -> None:
        if is_hit:
            self.hit_count += 1
        elif method.keeps:
            self.miss_count += 1

    def pack(self, result: bytes, is_kept: bool) -> Packed:
        if not is_kept:
            return Packed(result)
        packed = self.find_packed(result)
        if packed is None:
            packed = Packed(result)
            self._keep_packed(result, packed, 0)
        return packed

    def _keep_packed(self, result: bytes, packed: Packed, more: int) -> None:
        size = len(packed.blocks) + more + _SHIFTED_BYTES + _KEPT_OVERHEAD
        if size <= self._bytes_max // _SHARES:
            self._count_kept(size)
            self._packed[result] = packed

    def find_packed(self, result: bytes) -> Packed | None:
        packed = self._packed.get(result)
        if packed is None and (packed := self._packed_before.get(result)) is not None:
            self._keep_packed(result, packed, 0)
        return packed

    def keep_packed(self, result: bytes, packed: Packed) -> None:
        self._keep_packed(result, packed, len(result))

    def has(self, name: str) -> bool:
        return name in self._methods

    def result(self, name: str, params: bytes | None, view: Any) -> bytes | None:
        self.is_cached = True
        self.outcome = None
        method = self._methods.get(name)
        if method is None:
            return None
        if params is None or _NO_PARAMS.fullmatch(params):
            return self._bare(method, view)
        if method.keeps and len(params) <= _KEY_BYTES_MAX:
            self._count_look_up(method, is_hit=params in method.young or params in method.old)
        if params in method.young:
            return method.young[params]
        if params in method.old:
            result = method.old[params]
            self._keep(method, params, result)
            return result
        return None if view is None else self._make(method, params, view)

    def _bare(self, method: _Method, view: Any) -> bytes | None:
        self._count_look_up(method, is_hit=method.bare is not None)
        if method.bare is not None or view is None:
            return method.bare
        if method.handler is not None and not method.shape:
            return self._made(method, (view,))
        if method.read is not None:
            method.bare = self._run(method.read, view, None)
            self.is_cached = method.bare is not None
        return method.bare

    def _make(self, method: _Method, params: bytes, view: Any) -> bytes | None:
        is_keepable = method.keeps and len(params) <= _KEY_BYTES_MAX
        values = None
        if method.handler is not None and method.shape is not None:
            values = usual_params.read(method.shape, params, self._tip, method.items_max)
        if values is not None:
            if len(self.batch) > 1 and method.prepare is not None:
                self._look_ahead(method, params, view)
            result = self._made(method, (view, *values))
        elif is_keepable and len(params) <= _READ_BYTES_MAX and method.read is not None:
            result = self._run(method.read, view, params)
        else:
            return None
        if result is not None and is_keepable and self._is_asked_again(hash(params)):
            self._keep(method, params, result)
        return result

    def _look_ahead(self, method: _Method, params: bytes, view: Any) -> None:
        """What this call of a batch and those that follow it need is worked out side by side."""
        assert method.shape is not None
        assert method.prepare is not None
        start = next((place for place, call in enumerate(self.batch) if call == (method.name, params)), None)
        if start is None:  # it has been looked at
            return
        calls: list[tuple[Any, ...]] = []
        while start < len(self.batch) and len(calls) < _AHEAD_MAX:
            name, text = self.batch.pop(start) if self.batch[start][0] == method.name else (None, None)
            if name is None or text is None:
                start += 1
                continue
            values = usual_params.read(method.shape, text, self._tip, method.items_max)
            if values is not None:
                calls.append((view, *values))
        if len(calls) > 1:
            method.prepare(calls)

    def _made(self, method: _Method, arguments: tuple[Any, ...]) -> bytes | None:
        assert method.handler is not None
        if method.shape is not None and method.shape.startswith(b"b") and isinstance(arguments[1], bytes):
            self.is_cached = False
            try:
                number = self._find_block(arguments[0], arguments[1])
            except Exception:  # noqa: BLE001 - no block has been found: the strict path says so
                return None
            if number is None:
                return None
            arguments = (arguments[0], number, *arguments[2:])
        return self._run(method.handler, *arguments)

    def _run(self, handler: Callable[..., bytes | None], *arguments: Any) -> bytes | None:
        """What the handler says."""
        self.is_cached = False
        try:
            result = handler(*arguments) or b""
        except LeftToStrictPath:
            return None
        except Exception as error:  # noqa: BLE001 - the caller answers with the error
            self.outcome = error
            return None
        if len(result) <= self._result_bytes_max:
            return result
        self.outcome = result
        return None

    def _is_asked_again(self, params_hash: int) -> bool:
        """Whether params were asked for not long ago, as far as is remembered."""
        place = params_hash % _ASKED_COUNT
        is_again = self._asked[place] == params_hash
        self._asked[place] = params_hash
        return is_again
