"""Artifacts of contracts: registering them, and public logs with the names that they give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from fastnode.api.chain_parameters import LOG_FILTER, LogFilter
from fastnode.api.logs import span_of_filter
from fastnode.artifacts.naming import Naming
from fastnode.errors import DecodeError, InvalidParams, Refused
from fastnode.jsonrpc.methods import Context, Method, Parameter, common
from fastnode.kernels import encode
from fastnode.log_index.contracts import contract_class_json
from fastnode.log_index.range_queries import AnswerLimits, find_public_logs
from fastnode.protocol.fields import hex_text
from fastnode.values.field_elements import FIELD
from fastnode.values.schemas import Schema
from fastnode.values.value_type import ValueType

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.artifacts.store import ArtifactStore
    from fastnode.protocol.artifacts import Artifact

__all__ = ["event_methods", "registering_methods"]

#: Logs in one answer, and bytes of them, before names come to them.
EVENTS_MAX: Final = 200
EVENTS_BYTES_MAX: Final = 512 << 10


class ArtifactParameter(ValueType):
    """An artifact.  Its outermost shape is looked at here; the handler reads it, in its thread."""

    __slots__ = ()

    name = "ContractArtifact"
    expects = "the JSON that the compiler wrote (an object)"

    def from_json(self, value: object) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        raise self.refuse(value)

    def schema(self) -> Schema:
        return {"type": "object", "title": "ContractArtifact"}


ARTIFACT: Final = ArtifactParameter()


def registering_methods(store: ArtifactStore) -> list[Method]:
    """The method that registers.  It is for the operator: everybody is shown what it is given, and the class id does
    not vouch for the texts of assertions."""

    def register(context: Context, record: dict[str, Any], class_id: bytes | None) -> bytes:
        chain = context.view.chain
        try:
            found = store.register(record, lambda artifact: _check_class(chain, artifact, class_id))
        except DecodeError as error:
            raise InvalidParams(f"Invalid params: artifact (parameter 1) is no artifact: {error}") from None
        return orjson.dumps(
            {
                "classId": hex_text(found.class_id),
                "name": found.name,
                "functions": len(found.functions),
                "events": len(found.events),
                "slots": len(found.storage),
                "assertions": len(found.errors),
            }
        )

    return [
        Method(
            name="fastnode_registerArtifact",
            summary="Learn the names of a contract class from its artifact; one of another class is refused.",
            handler=register,
            in_thread=True,
            waits=True,
            for_own_pages=True,
            **common(
                "RegisteredArtifact",
                Parameter("artifact", ARTIFACT),
                Parameter("classId", FIELD, optional=True),
            ),
        )
    ]


def _check_class(chain: ChainView, artifact: Artifact, class_id: bytes | None) -> None:
    """Refused: the artifact is of another class than it was said to be, or of none that the chain has."""
    own = hex_text(artifact.class_id)
    if class_id is None:
        if contract_class_json(chain, artifact.class_id) is None:
            raise Refused(
                f"The artifact is of class {own}, which this chain has not published: another version of the contract, "
                "another compiler, or private functions only; name the class to keep it all the same",
                data={"code": "UNKNOWN_CLASS", "classId": own},
            )
        return
    if artifact.class_id == class_id:
        return
    published = orjson.loads(contract_class_json(chain, class_id) or b"{}")
    parts = (
        ("artifactHash", artifact.artifact_hash, "name, outputs, or private and utility functions"),
        ("privateFunctionsRoot", artifact.private_functions_root, "private functions"),
    )
    others = [what for key, value, what in parts if key in published and encode.from_hex(published[key]) != value]
    if published and not others:
        others = ["public bytecode"]
    differs = f": it differs in its {'; in its '.join(others)}" if others else ""
    raise Refused(
        f"The artifact is of class {own}, not of {hex_text(class_id)}{differs}",
        data={"code": "OTHER_CLASS", "classId": own},
    )


def event_methods(store: ArtifactStore, logs_max: int = EVENTS_MAX) -> list[Method]:
    """Public logs as node_getPublicLogs gives them, with names where an artifact is known."""

    def get_events(context: Context, wanted: LogFilter) -> bytes:
        chain = context.view.chain
        limits = AnswerLimits(logs=min(logs_max, EVENTS_MAX), size=EVENTS_BYTES_MAX)
        found = find_public_logs(
            chain, span_of_filter(chain, wanted), limits, contract=wanted.contract_address, tag=wanted.tag
        )
        naming = Naming(store, chain)
        events = [naming.log_record(orjson.loads(log)) for log in found.logs]
        return orjson.dumps({"logs": events, "maxLogsHit": found.is_cut})

    return [
        Method(
            name="fastnode_getPublicEvents",
            summary="Public logs as `node_getPublicLogs` gives them, with the names of contracts, events and values.",
            handler=get_events,
            in_thread=True,
            **common("GetPublicEventsResponse", Parameter("filter", LOG_FILTER)),
        )
    ]
