"""The method table: one declaration per method drives dispatch, validation and documentation.

A :class:`Method` names its parameters and result once per method set.  A :class:`MethodTable`
binds the methods to one choice of sets:

    release, development   the method exists if that set declares it, with that set's signature
    both                   it exists if either does.  The development signature is used where both
                           declare one: it only ever adds optional parameters and more ways to
                           name a block
    5.x                    the methods of release 5.x: those of the development set, but for what a method
                           says of it
    6.x                    the methods of release 6.x: those of 5.x, but for what a method says of it

Which set a node serves follows from the release of its chain, unless the operator names one.  What a handler answers
may depend on it: it reads ``context.method_set``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import field
from typing import Any, Final, Literal, TypeAlias, TypedDict

from fastnode.errors import InvalidParams, ResponseTooLarge, ServerError
from fastnode.http.allowance import Allowance, Party
from fastnode.jsonrpc.rate_limits import Client
from fastnode.records import dataclass
from fastnode.values.namespaces import Namespaces, wire_names
from fastnode.values.refusal import Reject, describe
from fastnode.values.value_type import ValueType
from fastnode.view import View

__all__ = [
    "METHOD_SETS",
    "OTHER_FORM",
    "BoundMethod",
    "Context",
    "Gone",
    "Handler",
    "Method",
    "MethodSet",
    "MethodTable",
    "Parameter",
    "Read",
    "Signature",
    "common",
    "has_option",
    "is_above",
    "is_five_or_later",
]

MethodSet: TypeAlias = Literal["both", "release", "development", "5.x", "6.x"]
METHOD_SETS: Final[tuple[MethodSet, ...]] = ("both", "release", "development", "5.x", "6.x")
#: Items of an array that are collected before there is room for them, together.
UNASKED_BYTES_MAX: Final = 1 << 20


def is_five_or_later(method_set: MethodSet) -> bool:
    """Return True for sets whose methods are called ``aztec_`` and answer with the records of 5.x."""
    return method_set in ("5.x", "6.x")


@dataclass(slots=True, eq=False)
class Context:
    """Context that the calls of one HTTP request share: the view they read and the bytes they may still answer."""

    #: The view, a newer one after a wait for a block; None: there is no chain yet.
    view_or_none: View | None
    method_set: MethodSet
    response_bytes_max: int
    #: The client that is charged for the calls; None: calls are free.
    client: Client | None = None
    #: The request's share of the loop and of the memory.
    allowance: Allowance = field(default_factory=lambda: Allowance(Party()))
    #: True: a page of another site asks.
    is_foreign: bool = False
    #: Until when calls of this request may wait for a block, on the loop's clock; None before the first one does.
    wait_until: float | None = field(default=None, init=False)
    #: Bytes of finished results.
    answered_bytes: int = field(default=0, init=False)
    #: Memory taken for the result that is being made.
    growing_bytes: int = field(default=0, init=False)

    @property
    def is_five_or_later(self) -> bool:
        """True if the method set answers with the records of 5.x."""
        return is_five_or_later(self.method_set)

    @property
    def view_key(self) -> object:
        """Key of the view; None without one."""
        return None if self.view_or_none is None else self.view_or_none.key

    @property
    def view(self) -> View:
        if self.view_or_none is None:
            raise ServerError("The node has not loaded its chain yet")
        return self.view_or_none

    @property
    def bytes_left(self) -> int:
        """Size of the results that this response may still hold."""
        return self.response_bytes_max - self.answered_bytes

    def require_bytes(self, count: int) -> None:
        """Refuse the call if a result of ``count`` bytes would exceed the limit of this response, or the memory of all.

        Handlers that collect many records ask as they go, so that an answer that cannot be sent is
        never built.
        """
        if count > self.response_bytes_max - self.answered_bytes:
            raise ResponseTooLarge(self.response_bytes_max)
        if count > self.growing_bytes:
            self.allowance.take(count - self.growing_bytes)
            self.growing_bytes = count

    def array(self, items: Iterable[bytes | None]) -> bytes:
        """JSON array of the items that are not None.  It stops soon after it exceeds what this response may still hold:
        room is asked for by many items at a time."""
        collected: list[bytes] = []
        size = asked = 2
        for item in items:
            if item is not None:
                collected += (b"," if collected else b"[", item)
                size += len(item) + 1
                if size > asked + UNASKED_BYTES_MAX:
                    self.require_bytes(asked := size)
        # One copy, without the interpreter if it is long.
        return b"".join((*collected, b"]")) if collected else b"[]"

    def add_result(self, count: int) -> None:
        """Count a finished result; errors as above.  What was asked for it is its own until the response is sent."""
        self.require_bytes(count)
        self.answered_bytes += count
        self.growing_bytes = 0


#: Sets whose reads a set takes, the first one that there is.
_FALLBACKS: Final[Mapping[MethodSet, tuple[MethodSet, ...]]] = {
    "5.x": ("5.x", "development"),
    "6.x": ("6.x", "5.x", "development"),
}

#: Result of a call in JSON, or the items of an array, which are collected as long as there is room, without those that
#: are None; None for nothing found.
Result: TypeAlias = bytes | Iterable[bytes | None] | None
#: ``handler(context, *arguments)``.
Handler: TypeAlias = Callable[..., Result]


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    type: ValueType
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters by position, and the type of the result as the documentation names it."""

    result: str
    parameters: tuple[Parameter, ...] = ()
    #: True if the answer may have no ``result`` key: nothing found.
    may_be_absent: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """A method of an earlier release that this set does not have.

    ``successor``: what to call there, as advice says it; empty: nothing.
    """

    successor: str = ""


#: A method that has a row of its own for 5.x.
OTHER_FORM: Final = Gone()


#: ``read(view, *values)``: a result that follows from the view and from what the node keeps beside it.  See
#: :class:`Method`.
Read: TypeAlias = Callable[..., Result]


def _no_handler(context: Context, *values: Any) -> Result:
    raise NotImplementedError


def _handler_of(read: Read, *, with_context: bool) -> Handler:
    def handle(context: Context, *values: Any) -> Result:
        return read(context.view, *values)

    def handle_long(context: Context, *values: Any) -> Result:
        return read(context.view, *values, context=context)

    return handle_long if with_context else handle


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One JSON-RPC method.  ``name`` carries its namespace, such as ``node_getBlock``.

    A method that only reads gives ``read``, and the ``shape`` that its parameters usually have: a letter for each
    (_ext/wire/usual_params.pyi), none for calls without parameters.  From it come both calls: the strict one reads the
    values from JSON, the fast one from the bytes received, where a block is its number and an array of field elements
    its bytes.  Reads are given by method set where they differ.

    A read with a shape that may take long (``in_thread``) is given ``context`` on the strict path, from which it asks
    for room.  Without one it is called on the event loop, and leaves what takes long to the strict path:
    LeftToStrictPath.

    Others give a ``handler``.
    """

    name: str
    summary: str
    handler: Handler = _no_handler
    read: Read | Mapping[MethodSet, Read] | None = None
    shape: bytes | None = None
    release: Signature | None = None
    development: Signature | None = None
    #: Signature in the set 5.x; None: that of the development set.
    five: Signature | Gone | None = None
    #: Signature in the set 6.x; None: that of the set 5.x.
    six: Signature | Gone | None = None
    #: True, or a function of the arguments that says so: too long for the event loop.
    in_thread: bool | Callable[[Sequence[Any]], bool] = False
    #: In its thread it mostly waits: for the disk, for another node, for its turn to hash.
    waits: bool = False
    #: Preparation of the arguments, in a thread of those that wait: ``prepare(context, *arguments)`` gives
    #: the handler's.  So what has to wait for a thread of the method's own keeps none.
    prepare: Callable[..., Sequence[Any]] | None = None
    #: Threads of its own, for what may keep them busy for long; else those of the server.
    threads: Executor | None = None
    #: True: pages of other sites may not call it, where the server tells them apart.
    for_own_pages: bool = False
    #: True if the answers follow from the view alone: they are kept until the next one.
    is_cached: bool = False
    #: Name of the method that takes its place: where that one is served, this one is deprecated.
    replaced_by: str | None = None

    def read_in(self, method_set: MethodSet) -> Read | None:
        """The reader of a set."""
        if not isinstance(self.read, Mapping):
            return self.read
        known = [name for name in _FALLBACKS.get(method_set, (method_set,)) if name in self.read]
        return self.read[known[0]]

    def signature(self, method_set: MethodSet) -> Signature | None:
        """The signature that holds in a set, or None if the method is not in it."""
        if method_set == "release":
            return self.release
        if method_set == "development":
            return self.development
        if is_five_or_later(method_set):
            declared = self._declared_in(method_set)
            return declared if isinstance(declared, Signature) else None
        chosen = self.development or self.release
        return None if chosen is None else _accept_every_block_form(chosen)

    def gone_in(self, method_set: MethodSet) -> Gone | None:
        """The advice for callers of a set that does not have the method, if there is any."""
        declared = self._declared_in(method_set) if is_five_or_later(method_set) else None
        return declared if isinstance(declared, Gone) else None

    def _declared_in(self, method_set: MethodSet) -> Signature | Gone | None:
        if method_set == "6.x" and self.six is not None:
            return self.six
        return self.development if self.five is None else self.five


class BothSignatures(TypedDict):
    """Keyword arguments of :class:`Method`."""

    release: Signature
    development: Signature


def is_above(maximum: int, *, argument: int) -> Callable[[Sequence[Any]], bool]:
    """For :attr:`Method.in_thread`: whether the number at this place is larger."""
    return lambda arguments: bool(arguments[argument] > maximum)


def has_option(name: str, *, argument: int) -> Callable[[Sequence[Any]], bool]:
    """For :attr:`Method.in_thread`: whether the options at this place have it."""
    return lambda arguments: arguments[argument] is not None and name in arguments[argument]


def common(result: str, *parameters: Parameter, may_be_absent: bool = False) -> BothSignatures:
    """Both signatures of a method that the sets declare alike, but for how a block is named."""
    release = Signature(result, parameters, may_be_absent)
    return {"release": release, "development": _accept_every_block_form(release)}


def _accept_every_block_form(signature: Signature) -> Signature:
    parameters = tuple(
        Parameter(parameter.name, parameter.type.wider, parameter.optional) for parameter in signature.parameters
    )
    return Signature(signature.result, parameters, signature.may_be_absent)


class BoundMethod:
    """A method as one server serves it."""

    __slots__ = (
        "_required_count", "for_own_pages", "handler", "in_thread", "is_cached", "name", "parameters", "prepare",
        "read", "shape", "signature", "summary", "threads", "waits",
    )  # fmt: skip

    def __init__(self, method: Method, signature: Signature, method_set: MethodSet) -> None:
        self.name = method.name
        self.summary = method.summary
        self.read = read = method.read_in(method_set)
        self.shape = method.shape
        has_context = method.in_thread is not False and method.shape is not None
        self.handler = method.handler if read is None else _handler_of(read, with_context=has_context)
        self.signature = signature
        self.parameters = signature.parameters
        self.in_thread = method.in_thread
        self.threads = method.threads
        self.waits = method.waits
        self.prepare = method.prepare
        self.is_cached = method.is_cached
        self.for_own_pages = method.for_own_pages
        required = [index for index, parameter in enumerate(self.parameters, 1) if not parameter.optional]
        self._required_count = max(required, default=0)

    @property
    def items_max(self) -> int:
        """The most items of an array among the parameters; 0 without one."""
        return max((getattr(parameter.type, "length_max", None) or 0 for parameter in self.parameters), default=0)

    def run(self, context: Context, arguments: Sequence[Any]) -> bytes | None:
        """The handler's result, for which there is room in the response; errors of both."""
        found = self.handler(context, *arguments)
        result = found if found is None or isinstance(found, bytes) else context.array(found)
        if result is not None:
            context.add_result(len(result))
        return result

    def answer(self, context: Context, params: list[Any]) -> bytes | None:
        """The result of a call, in the calling thread; errors of both."""
        arguments, _ = self.decode(params)
        return self.run(context, arguments)

    def decode(self, values: Any) -> tuple[list[Any], bool]:
        """The handler's arguments from the parameters of a request, and True if it takes long with them.

        ``null`` is an optional parameter that is left out.  Raises
        :class:`~fastnode.errors.InvalidParams`, which names the parameter or the limit.
        """
        if type(values) is not list:
            by_position = "params must be an array (parameters by position)"
            raise InvalidParams(f"Invalid params: {by_position}, got {describe(values)}")
        given = len(values)
        if given > len(self.parameters):
            given = self._count_without_trailing_nulls(values)
        if given < self._required_count:
            raise InvalidParams(f"Invalid params: {self._label(given)} is required")
        arguments: list[Any] = []
        for index, parameter in enumerate(self.parameters):
            value = values[index] if index < given else None
            if value is None and parameter.optional:
                arguments.append(None)
                continue
            try:
                arguments.append(parameter.type.from_json(value))
            except Reject as error:
                label = self._label(index, error.path)
                raise InvalidParams(f"Invalid params: {label} {error.reason}") from None
        is_long = self.in_thread
        return arguments, is_long if isinstance(is_long, bool) else is_long(arguments)

    def _label(self, index: int, path: str = "") -> str:
        return f"{self.parameters[index].name}{path} (parameter {index + 1})"

    def _count_without_trailing_nulls(self, values: list[Any]) -> int:
        """Clients write an optional parameter they do not use as null, also one of a newer release."""
        given = len(values)
        while given > len(self.parameters) and values[given - 1] is None:
            given -= 1
        if given > len(self.parameters):
            raise InvalidParams(f"Invalid params: {self.name} takes {self._allowed_count()}, got {given}")
        return given

    def _allowed_count(self) -> str:
        count = len(self.parameters)
        if count == 0:
            return "no parameters"
        return f"at most {count} parameter{'' if count == 1 else 's'}"


#: Namespaces of an Ethereum node.
_OF_L1: Final = frozenset({"eth", "net", "web3", "debug", "anvil", "evm"})
#: Port that answers the methods of a namespace.
_PORTS: Final = {"node": "public", "aztec": "public", "nodeAdmin": "admin", "aztecAdmin": "admin"}

_TRACES: Final = ("fastnode_traceBlock", "fastnode_traceCall", "fastnode_traceTransaction")
#: Advice for methods of the public port's namespaces that the admin port answers.
_OPERATORS: Final = {
    "fastnode_registerArtifact": "call the admin port",
    **dict.fromkeys(_TRACES, "call the admin port; --public-traces lets the public port answer it"),
}


class MethodTable:
    """The methods that one server serves, by name."""

    __slots__ = ("_by_wire_name", "_declared", "_gone", "_methods", "_namespaces", "l1_advice", "method_set")

    def __init__(
        self, methods: Iterable[Method], method_set: MethodSet = "both", *, namespaces: Namespaces = "both"
    ) -> None:
        self.method_set: MethodSet = method_set
        self._methods: dict[str, BoundMethod] = {}
        self._by_wire_name: dict[str, BoundMethod] = {}
        self._gone: dict[str, Gone] = {}
        #: Where methods of L1 are answered, for the caller of one.
        self.l1_advice = "call an Ethereum node"
        self._declared = list(methods)
        for method in self._declared:
            signature = method.signature(method_set)
            if signature is None:
                if (gone := method.gone_in(method_set)) is not None:
                    self._gone.update(dict.fromkeys(wire_names(method.name, namespaces), gone))
                continue
            if method.name in self._methods:
                raise ValueError(f"{method.name} is declared twice")
            bound = self._methods[method.name] = BoundMethod(method, signature, method_set)
            for name in wire_names(method.name, namespaces):
                self._by_wire_name[name] = bound
        self._namespaces = dict.fromkeys(name.partition("_")[0] for name in self._by_wire_name)

    def in_set(self, method_set: MethodSet) -> MethodTable:
        """The same methods in another set."""
        return MethodTable(self._declared, method_set)

    def get(self, name: str) -> BoundMethod | None:
        """The method that a client calls so."""
        return self._by_wire_name.get(name)

    def hint_for(self, name: str) -> str:
        """Advice for the caller of a method that is not here: its successor, its prefix, the other port."""
        namespace = name.partition("_")[0]
        if (gone := self._gone.get(name)) is not None and name not in self._by_wire_name:
            return f" (release {self.method_set} has no such method{f': {gone.successor}' if gone.successor else ''})"
        if name in _OPERATORS:
            return f" ({_OPERATORS[name]})"
        if namespace in _PORTS and namespace not in self._namespaces:
            return f" (call the {_PORTS[namespace]} port)"
        if namespace in _OF_L1 and namespace not in self._namespaces:
            return f" (a method of L1: {self.l1_advice})"
        meant = [f"{served}_{name}" for served in self._namespaces if f"{served}_{name}" in self._by_wire_name]
        return f" (did you mean {meant[0]}?)" if meant else ""

    def method(self, name: str) -> BoundMethod | None:
        """The method of this name or other name."""
        return self._methods.get(name)

    def by_wire_name(self) -> Mapping[str, BoundMethod]:
        """Every name that a client may use."""
        return self._by_wire_name

    def __iter__(self) -> Iterator[BoundMethod]:
        return iter(self._methods.values())

    def __len__(self) -> int:
        return len(self._methods)
