"""Writes the modules of the Python client that follow from the method table: records, prepared calls, methods.

``python -m fastnode.development.client_code src/fastnode/client``; a test fails when a file is not current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from fastnode.api.record_schemas import DOCS, RECORDS
from fastnode.api.schema_language import schema_of
from fastnode.app.ground.method_documentation import all_methods
from fastnode.jsonrpc.methods import Method, MethodSet, Parameter, is_five_or_later
from fastnode.records import dataclass
from fastnode.values.namespaces import newer_name
from fastnode.values.schemas import Schema

__all__ = ["render"]

_MADE_BY: Final = "# Made by scripts/make-docs from the method table: change that instead.\n"

#: Python's types of what is no record.
_SCALARS: Final = {
    "Fr": "Fr",
    "EthAddress": "EthAddress",
    "FunctionSelector": "str",
    "Signature": "str",
    "PublicKey": "str",
    "number": "int",
    "bigint": "BigInt",
    "block number": "int",
    "boolean": "bool",
    "string": "str",
    "float": "float",
    "void": "None",
    "any": "Any",
    "bytes": "Base64",
    "SiblingPath": "Base64",
    "MembershipWitness": "Base64",
    "AztecNodeAdminConfig": "dict[str, Any]",
    "AztecNodeAdminConfigV5": "dict[str, Any]",
    "PartialAztecNodeAdminConfig": "dict[str, Any]",
    "PartialAztecNodeAdminConfigV5": "dict[str, Any]",
    "ValidatorsByAddress": '"dict[str, ValidatorStats]"',
}

_ANYTHING: Final = "Mapping[str, Any]"
#: Python types of parameters, by the names of their types.
_PARAMETERS: Final = {
    "AztecAddress": "Field",
    "BlockHash": "Field",
    "BlockIncludeOptions": "Mapping[str, bool]",
    "BlockParam": "BlockParameter",
    "BlocksIncludeOptions": "Mapping[str, bool]",
    "ChainTip": "str",
    "ContractArtifact": _ANYTHING,
    "CheckpointIncludeOptions": "Mapping[str, bool]",
    "CheckpointParameter": "int | str | Mapping[str, int]",
    "CheckpointsQuery": "Mapping[str, int]",
    "EthAddress": "str",
    "EthAddress[]": "Sequence[str]",
    "Fr": "Field",
    "Fr[]": "Sequence[Field]",
    "LogFilter": _ANYTHING,
    "ManaUsageEstimate": "int | str",
    "MerkleTreeId": "int",
    "Partial<AztecNodeAdminConfig>": _ANYTHING,
    "Partial<AztecNodeAdminConfigV5>": _ANYTHING,
    "SiloedTag[]": "Sequence[Field]",
    "Tag[]": "Sequence[Field]",
    "TraceOptions": _ANYTHING,
    "Tx": _ANYTHING,
    "TxHash": "Field",
    "TxHash[]": "Sequence[Field]",
    "TxValidationOptions": "Mapping[str, bool]",
    "block number": "int",
    "boolean": "bool",
    "checkpoint number": "int",
    "location": "str",
    "number": "int",
    "page": "int",
    "round": "int | str",
    "slot": "int",
    "string[]": "Sequence[str]",
}

#: Parameters of the methods of 5.x and 6.x.
_PARAMETERS_OF_FIVE: Final = _PARAMETERS | {
    "AnyCheckpointsQuery": "Mapping[str, int | bool]",
    "ArchiveBlockParam": "Mapping[str, str]",
    "CheckpointProposalHash": "Field",
    "CheckpointTag": "str",
    "ConfirmedCheckpoint": "int | str | Mapping[str, int]",
    "GetTxByHashOptions": "Mapping[str, bool]",
    "GetTxReceiptOptions": "Mapping[str, bool]",
    "PrivateLogsQuery": _ANYTHING,
    "PublicLogsQuery": _ANYTHING,
    "SimulationOverrides": _ANYTHING,
}

_RECORDS_HEAD: Final = '''"""Answers of a node, as they stand in JSON.  A key that is NotRequired may be absent."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

#: 0x and 64 hex digits.
Fr: TypeAlias = str
#: 0x and 40 hex digits.
EthAddress: TypeAlias = str
#: An integer of any size in decimal digits.
BigInt: TypeAlias = str
Base64: TypeAlias = str
'''

_PREPARED_HEAD: Final = '''"""Calls that are not made yet: for batches, and for results of other types (Call.into)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from fastnode.client import records
from fastnode.client.calls import Call

#: 32 bytes, or 0x and hex digits.
Field: TypeAlias = str | bytes
#: A number, a hash, the name of a tip, or an object such as {"tag": "proven"}.
BlockParameter: TypeAlias = int | str | bytes | Mapping[str, Any]
'''

_METHODS_HEAD: Final = '''"""Every method of a node as a method of the clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from fastnode.client import prepared, records
from fastnode.client.calls import Call
from fastnode.client.prepared import BlockParameter, Field

T = TypeVar("T")
'''

_PREPARED_HEAD_OF_FIVE: Final = '''"""Calls of the methods of releases 5.x and 6.x that are not made yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastnode.client import records
from fastnode.client.calls import Call
from fastnode.client.prepared import BlockParameter, Field
'''

_METHODS_HEAD_OF_FIVE: Final = _METHODS_HEAD.replace(
    "Every method of a node as", "Every method of releases 5.x and 6.x as"
).replace("import prepared, records", "import prepared5, records")

_CLASS_HEAD: Final = '''

class {name}:
    {async_}def call(self, call: Call[T]) -> T:
        """Make a call."""
        raise NotImplementedError
'''


def render() -> dict[str, str]:
    """The modules by the names of their files."""
    both, five = _methods_in("both"), _methods_in("5.x", "6.x")
    of_both = _class("SyncMethods", both) + _class("AsyncMethods", both)
    of_five = _class("SyncMethods5", five) + _class("AsyncMethods5", five)
    return {
        "records.py": _MADE_BY + _RECORDS_HEAD + "".join(_records()),
        "prepared.py": _MADE_BY + _PREPARED_HEAD + "".join(map(_prepared, both)),
        "methods.py": _MADE_BY + _METHODS_HEAD + of_both,
        "prepared5.py": _MADE_BY + _PREPARED_HEAD_OF_FIVE + "".join(map(_prepared, five)),
        "methods5.py": _MADE_BY + _METHODS_HEAD_OF_FIVE + of_five,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Described:
    """A method as a set has it."""

    #: As clients call it.
    name: str
    summary: str
    parameters: tuple[Parameter, ...]
    #: Types of what it answers.
    results: tuple[str, ...]
    may_be_absent: bool
    #: Module of its prepared call, and Python types of parameters by the names of their types.
    prepared: str
    types: Mapping[str, str]


def _methods_in(*method_sets: MethodSet) -> list[_Described]:
    """Methods of some sets, by their names in Python; one that several have is that of the first."""
    described = []
    for method in all_methods():
        having = [name for name in method_sets if method.signature(name) is not None]
        if having:
            only = "" if len(having) == len(method_sets) else f" Only in {having[0]}."
            described.append(_described(method, having[0], only))
    return sorted(described, key=_name)


def _described(method: Method, method_set: MethodSet, only: str) -> _Described:
    signature = method.signature(method_set)
    assert signature is not None
    is_five = is_five_or_later(method_set)
    results = (
        [signature.result]
        if is_five
        else [each.result for each in (method.release, method.development) if each is not None]
    )
    return _Described(
        name=(newer_name(method.name) or method.name) if is_five else method.name,
        summary=method.summary + only,
        parameters=signature.parameters,
        results=tuple(dict.fromkeys(results)),
        may_be_absent=signature.may_be_absent,
        prepared="prepared5" if is_five else "prepared",
        types=_PARAMETERS_OF_FIVE if is_five else _PARAMETERS,
    )


# ---- records -------------------------------------------------------------------------------------------


def _records() -> Iterable[str]:
    for name, text in sorted(RECORDS.items()):
        # Objects inside of a record become records of their own, in front of it.
        made: list[str] = []
        _type_of(schema_of(text), name, made)
        yield from made


def _type_of(schema: Schema, name: str, made: list[str], prefix: str = "") -> str:
    """The Python type of a schema; ``name`` is what an object in it is called, and goes to ``made``."""
    if "$ref" in schema:
        target = schema["$ref"].rpartition("/")[2]
        return _scalar(target, prefix) if target in _SCALARS else prefix + target
    if "enum" in schema or "const" in schema:
        return f"Literal[{', '.join(repr(word) for word in schema.get('enum', [schema.get('const')]))}]".replace(
            "'", '"'
        )
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type_of(option, name, made, prefix) for option in schema["anyOf"]))
    if schema["type"] == "null":
        return "None"
    if schema["type"] == "array":
        items = schema["items"]
        if isinstance(items, list):
            return f"list[{' | '.join(dict.fromkeys(_type_of(item, name, made, prefix) for item in items))}]"
        return f"list[{_type_of(items, name, made, prefix)}]"
    return _object(schema, name, made, prefix)


def _scalar(name: str, prefix: str) -> str:
    found = _SCALARS[name]
    return prefix + found if found in ("Fr", "EthAddress", "BigInt", "Base64") else found.strip('"')


def _object(schema: Schema, name: str, made: list[str], prefix: str) -> str:
    lines = []
    for key, member in schema["properties"].items():
        kind = _type_of(member, name + key[0].upper() + key[1:].rstrip("s"), made)
        lines.append((key, kind if key in schema["required"] else f"NotRequired[{kind}]"))
    if all(key.isidentifier() and key not in ("from",) for key, _ in lines):
        docs = DOCS.get(name, {})
        body = "".join(f"{_comment(docs.get(key))}    {key}: {kind}\n" for key, kind in lines) or "    pass\n"
        made.append(f"\n\nclass {name}(TypedDict):\n{body}")
    else:
        raise ValueError(f"{name} has a key that Python cannot write")
    return prefix + name


def _comment(words: str | None) -> str:
    return f"    #: {words}\n" if words else ""


# ---- methods -------------------------------------------------------------------------------------------


def _name(method: _Described) -> str:
    bare = method.name.replace(".", "_").rpartition("_")[2]
    return _snake(bare)


def _snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", text.replace("L1To", "L1_To").replace("L2To", "L2_To")).lower()


def _argument(parameter: Parameter) -> str:
    name = _snake(parameter.name)
    return f"{name}_" if name in ("from", "id", "filter") else name


def _arguments(method: _Described) -> str:
    parts = []
    for parameter in method.parameters:
        kind = method.types[parameter.type.name]
        parts.append(f"{_argument(parameter)}: {kind}{' | None = None' if parameter.optional else ''}")
    return ", ".join(parts)


def _result(method: _Described) -> str:
    texts = method.results
    made: list[str] = []
    kinds = dict.fromkeys(_type_of(schema_of(text), "", made, "records.") for text in texts if not text.startswith("{"))
    if any(text.startswith("{") for text in texts):
        kinds["dict[str, Any]"] = None
    if method.may_be_absent:
        kinds["None"] = None
    # A choice of lists reads better as a list of choices.
    return "Any" if "Any" in kinds else " | ".join(kinds)


def _prepared(method: _Described) -> str:
    names = ", ".join(map(_argument, method.parameters))
    params = f", ({names},)" if names else ""
    return (
        f"\n\ndef {_name(method)}({_arguments(method)}) -> Call[{_result(method)}]:\n"
        f'    """{method.name}: {method.summary}"""\n'
        f'    return Call("{method.name}"{params})\n'
    )


def _class(name: str, methods: Iterable[_Described]) -> str:
    async_, await_ = ("async ", "await ") if name.startswith("Async") else ("", "")
    parts = [_CLASS_HEAD.format(name=name, async_=async_)]
    for method in methods:
        arguments = _arguments(method)
        names = ", ".join(map(_argument, method.parameters))
        parts.append(
            f"\n    {async_}def {_name(method)}(self{', ' if arguments else ''}{arguments}) -> {_result(method)}:\n"
            f'        """{method.name}: {method.summary}"""\n'
            f"        return {await_}self.call({method.prepared}.{_name(method)}({names}))\n"
        )
    return "".join(parts)


def main(folder: Path) -> None:
    for name, text in render().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
