"""Writes docs/methods.md and docs/methods-5.md from the method table.

``python -m fastnode.app.ground.documentation > docs/methods.md``, with the argument ``5.x`` for the page of the methods
of 5.x and later; a test fails when a file is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fastnode.api.method_errors import CODES, REASONS
from fastnode.api.record_schemas import DOCS, RECORDS
from fastnode.app.ground.method_documentation import STATES_OF_FIVE, all_methods, state_of
from fastnode.jsonrpc.methods import Method, Parameter, Signature
from fastnode.values.namespaces import newer_name

__all__ = ["render", "render_five"]

_INTRODUCTION: Final = """\
# Methods

<!-- Made by `python -m fastnode.app.ground.documentation`; change the tables in src/fastnode/api instead. -->

Parameters go by position; `?` marks one that may be left out or be `null`. *or nothing*: the result is `null`
if nothing is found, or if the method returns nothing (`--absent-results omit` leaves the member out, as the published
node does). `release` and `development` are two generations of the same interface, served together unless
`--method-set` narrows them; of a method with two forms that of the development set holds then, which takes everything
that the release set takes ([compatibility](compatibility.md#method-sets)). A chain of 5.x or 6.x is answered with
[methods of its own](methods-5.md).

The admin port serves the `nodeAdmin_` methods, `fastnode_registerArtifact` and the traces (`fastnode_traceTransaction`,
`fastnode_traceCall`, `fastnode_traceBlock`); the public port serves all others. With `--public-traces`, and on a local
network, the public port serves traces too.

A wrong parameter is rejected with the error -32602, which names the parameter, its position and what is allowed.
Parameter objects accept only the documented members; an unknown member is rejected with the nearest name.
Transactions and artifacts may have more members, which are ignored.

A call has `method`, and perhaps `params`, `id` and `jsonrpc`, which is `"2.0"` if it is there. A call without an `id`
is a notification: it is executed and not answered (HTTP 204). [Errors](#errors) are listed below.

Answers come from what this node has verified itself, unless the last column says otherwise.

"""

_INTRODUCTION_OF_FIVE: Final = """\
# Methods of releases 5.x and 6.x

<!-- Made by `python -m fastnode.app.ground.documentation 5.x`; change the tables in src/fastnode/api instead. -->

A node answers with these on a chain of [release 5.x](releases.md#the-methods-of-5x) or
[6.x](releases.md#the-methods-of-6x), or with `--method-set 5.x` or `--method-set 6.x`; under `node_` and `nodeAdmin_`
too, unless `--namespaces` says otherwise. A method that the release does not have is answered with "method not found"
and the name of what to call instead. Records and the other types of parameters are on the page of
[the methods of 4.x](methods.md#records), which also says how parameters are written.

"""

_OVERVIEW: Final = """\
| method | parameters and result | what it answers, and from where |
|---|---|---|
"""

_TYPES_HEAD: Final = """\
## Parameter types

| type | what is accepted |
|---|---|
"""

_TYPES: Final = f"""\
{_TYPES_HEAD}\
| number a..b | a whole number from a to b; numbers of blocks, checkpoints, epochs and slots also as text |
"""

_RECORDS: Final = """\
## Records

`fastnode openrpc` prints all of this with JSON schemas, examples and errors, as an OpenRPC document; `rpc.discover` and
`GET /openrpc.json` answer what a port serves.
`?` marks a member that may be absent. `Fr` is `0x` and 64 hex digits, `EthAddress` `0x` and 40,
`bigint` decimal text, `number` a JSON number, `bytes`, `SiblingPath` and `MembershipWitness` base64.
"""

_ERRORS: Final = """\
## Errors

The answer to each call has its id and one of `result` and `error`, also while the node starts. The id is `null` where
no call was read.

| `error.code` | when |
|---|---|
"""

_REASONS: Final = """\

An error -32000 or -32005 may have an object `error.data`, whose `code` is for programs:

| `error.data.code` | what it means |
|---|---|
"""

_EXAMPLES: Final = """\
## Examples

Those of the OpenRPC document are what a node with the sample chain answers; one that needs a flag names it. These
methods have none:

"""

#: Methods without an example, and why.
WITHOUT_EXAMPLE: Final = {
    "node_sendTx": "a transaction has 190 kB; [getting started](getting-started.md#send-a-transaction) sends one",
    "node_isValidTx": "as `node_sendTx`",
    "node_simulatePublicCalls": "as `node_sendTx`",
    "fastnode_traceTransaction": "needs kept transactions; [traces](public-execution.md#traces) tells what it answers",
    "fastnode_traceBlock": "as `fastnode_traceTransaction`",
    "fastnode_traceCall": "as `node_sendTx`",
    "fastnode_getKeptTx": "needs kept transactions",
    "fastnode_registerArtifact": "an artifact has 100 kB and more; [names](public-execution.md#names) registers one",
    "fastnode_getGenesis": "the genesis record has 66 kB",
    "node_getCheckpointAttestationsForSlot": "needs peers of 5.x (`--untried-peers`)",
    "node_getProposalsForSlot": "as `node_getCheckpointAttestationsForSlot`",
    "node_getTxEffectMembershipWitness": "needs a chain of 6.x",
    "nodeAdmin_pauseSequencer": "needs a node that builds blocks",
    "nodeAdmin_resumeSequencer": "as `nodeAdmin_pauseSequencer`",
    "nodeAdmin_reloadKeystore": "needs files of keys",
    "nodeAdmin_startSnapshotUpload": "needs a place to write to",
    "rpc.discover": "its result is the document",
}


def render(methods: Sequence[Method]) -> str:
    """The whole page of the methods of 4.x."""
    methods = [method for method in methods if method.release is not None or method.development is not None]
    parts = [_INTRODUCTION, _OVERVIEW]
    parts.extend(_row(method.name, "; ".join(_forms(method)), method, state_of(method)) for method in methods)
    parts.append("\n" + _TYPES)
    parts.extend(f"| {name} | {accepted} |\n" for name, accepted in _type_rows(methods))
    parts.append("\n" + _ERRORS)
    parts.extend(f"| {code} | {meaning} |\n" for code, meaning in CODES.items())
    parts.append(_REASONS)
    parts.extend(f"| `{reason}` | {meaning} |\n" for reason, meaning in sorted(REASONS.items()))
    parts.append("\n" + _EXAMPLES)
    names = {method.name for method in methods} | {"rpc.discover"}
    parts.extend(f"- `{name}`: {reason}\n" for name, reason in WITHOUT_EXAMPLE.items() if name in names)
    parts.append("\n" + _RECORDS)
    records = (f"{name} {_lay_out(text, DOCS.get(name, {}))}" for name, text in sorted(RECORDS.items()))
    parts.append("\n```text\n" + "\n\n".join(records) + "\n```\n")
    return "".join(parts)


def render_five(methods: Sequence[Method]) -> str:
    """The whole page of the methods of 5.x and 6.x."""
    parts, types = [_INTRODUCTION_OF_FIVE, _OVERVIEW], set()
    for method in methods:
        five, six = method.signature("5.x"), method.signature("6.x")
        if five is None and six is None:
            continue
        name, forms = newer_name(method.name) or method.name, _forms_of("5.x", five, "6.x", six)
        state = STATES_OF_FIVE.get(method.name, state_of(method))
        parts.append(_row(name, "; ".join(forms), method, state))
        types |= {
            (parameter.type.name, parameter.type.expects)
            for signature in (five, six)
            for parameter in (signature.parameters if signature is not None else ())
            if parameter.type.title == parameter.type.name
        }
    parts.append("\n" + _TYPES_HEAD)
    parts.extend(f"| {name} | {accepted} |\n" for name, accepted in sorted(types.difference(_type_rows(methods))))
    return "".join(parts)


def _lay_out(record: str, docs: Mapping[str, str]) -> str:
    """A record with each of its members on a line of its own, and the words about it."""
    lines, depth = [""], 0
    for character in record:
        depth += (character in "{[(") - (character in "}])")
        if depth == 0 and character == "}":
            lines.append("")
        lines[-1] += character
        if depth == 1 and character in "{,":
            lines.append("")
    members = [line.strip() for line in lines[1:-1]]
    words = [docs.get(member.partition(":")[0].rstrip("?")) for member in members]
    inside = (f"  {member}{f'  # {about}' if about else ''}" for member, about in zip(members, words, strict=True))
    return "\n".join((lines[0], *inside, lines[-1]))


def _row(name: str, forms: str, method: Method, state: str) -> str:
    cells = (f"`{name}`", forms, f"{method.summary}{state and f' *{state}*'}")
    return f"| {' | '.join(map(_escaped, cells))} |\n"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _forms(method: Method) -> list[str]:
    """Parameters and result, in each of the sets where they differ."""
    return _forms_of("release", method.release, "development", method.development)


def _forms_of(name: str, one: Signature | None, other_name: str, other: Signature | None) -> list[str]:
    if one is not None and other is not None:
        lines = _describe(one), _describe(other)
        if lines[0] == lines[1]:
            return [lines[0]]
        return [f"{name}: {lines[0]}", f"{other_name}: {lines[1]}"]
    if one is not None:
        return [f"{name} only: {_describe(one)}"]
    if other is not None:
        return [f"{other_name} only: {_describe(other)}"]
    return []


def _describe(signature: Signature) -> str:
    parameters = ", ".join(map(_describe_parameter, signature.parameters))
    nothing = " or nothing" if signature.may_be_absent else ""
    return f"`({parameters})` gives `{signature.result}`{nothing}"


def _describe_parameter(parameter: Parameter) -> str:
    mark = "?" if parameter.optional else ""
    return f"{parameter.name}{mark}: {parameter.type.title}"


def _type_rows(methods: Iterable[Method]) -> list[tuple[str, str]]:
    """Each type once; what only the release set reads in its own way is marked."""
    in_development: set[tuple[str, str]] = set()
    in_release: set[tuple[str, str]] = set()
    for method in methods:
        for signature, rows in ((method.release, in_release), (method.development, in_development)):
            for parameter in signature.parameters if signature is not None else ():
                if parameter.type.title == parameter.type.name:  # the title of others names their limits
                    rows.add((parameter.type.name, parameter.type.expects))
    names = {name for name, _ in in_development}
    marked = {(f"{name} (release)" if name in names else name, text) for name, text in in_release - in_development}
    return sorted(in_development | marked)


def _main() -> None:
    page = render_five if sys.argv[1:] == ["5.x"] else render
    sys.stdout.write(page(all_methods()))


if __name__ == "__main__":
    _main()
