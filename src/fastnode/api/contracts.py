"""Contract classes and instances, names of their functions, and what may run before the fee is secured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.api.chain_parameters import DEVELOPMENT_BLOCK, BlockName
from fastnode.api.lookups import reference_block
from fastnode.config.allow_list import AllowedElement
from fastnode.errors import ServerError
from fastnode.jsonrpc.methods import OTHER_FORM, Context, Gone, Method, Parameter, Signature, common
from fastnode.log_index.contracts import contract_class_json, contract_instance_json
from fastnode.log_index.function_names import FunctionNames
from fastnode.values.arrays import ArrayOf
from fastnode.values.field_elements import ADDRESS, FIELD
from fastnode.values.refusal import Reject
from fastnode.values.texts import Text

if TYPE_CHECKING:
    from fastnode.view import View

__all__ = ["methods"]

SIGNATURES_MAX: Final = 100
SIGNATURE_LENGTH_MAX: Final = 10_000
#: Characters that are hashed in less time than it takes to change to a thread, and what a name takes besides, as
#: characters.
QUICKLY_HASHED_LENGTH: Final = 1_000
NAME_OVERHEAD_LENGTH: Final = 100


class FunctionSignature(Text):
    """``name(type,type)``: text without blanks."""

    __slots__ = ()

    @property
    def expects(self) -> str:
        return f"a function signature of 1 to {self.length_max} characters, without blanks"

    def from_text(self, text: str) -> str:
        signature = Text.from_text(self, text)
        if signature.split(None, 1) != [signature]:  # has blanks; this runs on the event loop, on up to a megabyte
            raise self.refuse_text(text)
        try:
            signature.encode()
        except UnicodeEncodeError:
            raise Reject(f"must be {self.expects}, got one with half a character") from None
        return signature


class ContractMethods:
    def __init__(self, function_names: FunctionNames, allow_list: Callable[[], Sequence[AllowedElement]]) -> None:
        self._function_names = function_names
        self._allow_list = allow_list

    def register_signatures(self, _context: Context, signatures: Sequence[str]) -> None:
        for signature in signatures:
            self._function_names.register(signature)

    def allowed_public_setup(self, _context: Context) -> bytes:
        return orjson.dumps([element.to_json() for element in self._allow_list()])


def _instance_at(view: View, address: bytes, reference: BlockName | None = None) -> bytes | None:
    chain = view.chain
    if reference is None:
        return contract_instance_json(chain, address)
    block = reference_block(view, reference)
    if block > chain.tip_number:
        raise ServerError(
            f"Reference block {block} not found: the newest block of this node is {chain.tip_number}. "
            "If it was there before, a reorg has replaced it."
        )
    return contract_instance_json(chain, address, block)


def _are_long(arguments: Sequence[Any]) -> bool:
    signatures = arguments[0]
    return sum(map(len, signatures)) + len(signatures) * NAME_OVERHEAD_LENGTH > QUICKLY_HASHED_LENGTH


def methods(function_names: FunctionNames, allow_list: Callable[[], Sequence[AllowedElement]]) -> list[Method]:
    """The contract methods, alike in both method sets.

    ``function_names`` keeps the names that clients register; ``allow_list`` gives the entries in force now.
    """
    handlers = ContractMethods(function_names, allow_list)
    signatures = Parameter("functionSignatures", ArrayOf(FunctionSignature(SIGNATURE_LENGTH_MAX), SIGNATURES_MAX))
    return [
        Method(
            name="node_getContractClass",
            summary="A contract class that the chain has published.",
            read=lambda view, class_id: contract_class_json(view.chain, class_id),
            shape=b"f",
            is_cached=True,
            **common("ContractClassPublic", Parameter("id", FIELD), may_be_absent=True),
        ),
        Method(
            name="node_getContract",
            summary="A contract that the chain has published, with its class at the newest block.",
            read=lambda view, address: contract_instance_json(view.chain, address),
            shape=b"h",
            is_cached=True,
            five=OTHER_FORM,
            **common("ContractInstanceWithAddress", Parameter("address", ADDRESS), may_be_absent=True),
        ),
        Method(
            name="node_getContract",
            summary="A contract that the chain has published, with its class at a block, or at the newest.",
            read=_instance_at,
            shape=b"h|b",
            is_cached=True,
            five=Signature(
                "ContractInstanceWithAddress",
                (Parameter("address", ADDRESS), Parameter("referenceBlock", DEVELOPMENT_BLOCK, optional=True)),
                may_be_absent=True,
            ),
        ),
        Method(
            name="node_registerContractFunctionSignatures",
            summary="Name contract functions, for texts that people read.",
            handler=handlers.register_signatures,
            in_thread=_are_long,
            five=Gone("fastnode_registerArtifact names functions"),
            **common("void", signatures, may_be_absent=True),
        ),
        Method(
            name="node_getAllowedPublicSetup",
            summary="The public calls that a transaction may make before its fee is secured.",
            handler=handlers.allowed_public_setup,
            **common("AllowedElement[]"),
        ),
    ]
