"""The rooms of the package, and what each may import: the table behind the test of imports and docs/architecture.md.

A room is a folder or a module right below ``fastnode``.  The rooms are listed from the ground up, and a room imports
only rooms listed before it; ``imports`` narrows that where a room must not know more.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from fastnode.development.marked_pages import renew, renew_named_file

__all__ = ["ROOMS", "SUB_ROOMS", "Room", "allowed_imports", "render", "render_page"]


class Room(NamedTuple):
    name: str
    purpose: str
    #: All that it may import; None: every room listed before it.
    imports: frozenset[str] | None = None
    is_module: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}.py" if self.is_module else f"{self.name}/"


def _only(names: str) -> frozenset[str]:
    return frozenset(names.split())


#: Rooms that know nothing of the node.
_GROUND: Final = _only("errors files trace log loop kernels records")

ROOMS: Final = (
    Room("errors", "the one tree of errors", _only(""), is_module=True),
    Room("records", "dataclasses that cost a start next to nothing", _only(""), is_module=True),
    Room("files", "small files that are replaced whole, durable when that returns", _only(""), is_module=True),
    Room("extras", "packages that are installed on request only", _only(""), is_module=True),
    Room("trace", "which request a line of the log and a request to another node belong to", _only(""), is_module=True),
    Room("log", "the log: text for people, JSON for machines", _only("trace"), is_module=True),
    Room(
        "loop",
        "work that is done again and again in a thread, whatever happens in it",
        _only("errors log"),
        is_module=True,
    ),
    Room("_ext", "Cython and C: bytes in, bytes out; no asyncio, no settings, no logging", _only("errors")),
    Room("_twins", "hashes, trees, machine and encodings in plain Python", _only("errors _ext")),
    Room("kernels", "the one door to the extensions", _only("errors _ext _twins"), is_module=True),
    Room("interpreter", "how many threads keep the interpreter from the event loop", _only(""), is_module=True),
    Room("values", "the types of settings and parameters: read from text and JSON, described, JSON schemas", _GROUND),
    Room("protocol", "the network's types and rules: hashes, binary forms, JSON; no database, no network", _GROUND),
    Room(
        "outgoing",
        "requests to other servers: HTTP, JSON-RPC, the health of an endpoint, failover; knows no chain",
        _GROUND | _only("values"),
    ),
    Room("verify", "checks of what a node answers, without one", _GROUND | _only("protocol"), is_module=True),
    Room(
        "client",
        "a node from Python: typed methods made from the method table, batches, retries",
        _GROUND | _only("values protocol outgoing extras"),
    ),
    Room("storage", "LevelDB on disk: databases, the data directory with its lock, replacing one set by another"),
    Room("config", "the settings table, its layers, its page; what an operator changes while the node runs"),
    Room("archiver", "the chain: verification, ingestion, undo, queries, check"),
    Room("world_state", "the five trees: apply, undo, prune, witnesses"),
    Room("log_index", "indexes of logs and contracts, beside the chain in its database"),
    Room("artifacts", "names of contracts: their artifacts, and what they tell of calls, logs and storage"),
    Room("view", "what one request sees: the chain and the state at one tip", is_module=True),
    Room("recent_blocks", "the newest blocks, kept from the commits that brought them", is_module=True),
    Room("chain_data", "the databases of a data directory, opened and closed together", is_module=True),
    Room(
        "sources", "where blocks come from: chain files, other nodes, what L1 says; the loop that follows a live chain"
    ),
    Room("fees", "what gas costs: from the chain, another node or L1"),
    Room(
        "proofs",
        "whether a transaction's proof holds: keys, setup files, the verifier program, the queue before it",
        _GROUND | _only("protocol values config"),
    ),
    Room("mempool", "transactions that are not in a block yet: checked, kept, handed on"),
    Room("bus", "blocks and transactions between the nodes of a fleet, over NATS JetStream"),
    Room("public_execution", "the public part of transactions: phases, contracts, side effects, simulations"),
    Room("building", "blocks and checkpoints made of the transactions of the pool: budgets, checks, headers, blobs"),
    Room("local_network", "a local chain: its genesis, its clock, when blocks are built, what may be changed"),
    Room("sentinel", "what validators did, and the offenses that follow from it"),
    Room(
        "p2p",
        "the peer-to-peer network: connections, gossip, requests, scores, discovery; a source of transactions and "
        "proposed blocks, and a sink for ours; knows no JSON-RPC",
    ),
    Room("data_check", "the check of all databases of a data directory, in steps that several processes share"),
    Room("snapshots", "copies of the databases: made while the node runs, uploaded, verified, restored"),
    Room(
        "parquet",
        "the chain as tables in Parquet files, for analysts: written in partitions, continued, verified by the trees",
        _GROUND | _only("protocol archiver world_state"),
    ),
    Room("keystore", "validator keys: key files, mnemonics, remote signers"),
    Room("ha", "the PostgreSQL database in which redundant nodes agree on who signs"),
    Room("publishing", "writing to L1: calls, transactions with blobs, signatures, fees, what becomes of each"),
    Room("sequencing", "proposing checkpoints: whose slot it is, what is built in it and when, who attests"),
    Room("proving", "proving epochs: their inputs, the batched blob, the program that proves, the proven tip"),
    Room(
        "http",
        "HTTP/1.1: connections, codings, limits, probes; knows no JSON-RPC",
        _GROUND | _only("values interpreter"),
    ),
    Room(
        "jsonrpc",
        "the engine, the method table, waiting for a block, rate limits; of the chain it knows the view alone",
        _GROUND | _only("values http view"),
    ),
    Room("api", "the methods: handlers by subject, parameter types, records, schemas"),
    Room("serving", "the servers of both ports: fast path, guards"),
    Room("metrics", "metrics as monitoring systems read them, on their own port"),
    Room("status_page", "the page of the admin port: how the node is, and an explorer; its files are in `assets/`"),
    Room("workers", "one node in several processes: what the primary tells its workers, and who starts whom"),
    Room("app", "the node put together: its parts in order, ingestion, method tables, the process"),
    Room("cli", "the `fastnode` command; imports nothing heavy until a command runs"),
    Room("testing", "local networks for test suites: processes or threads, and calls to them", is_module=True),
    Room("pytest_plugin", "the same as fixtures of pytest", is_module=True),
    Room("development", "what people who work on fastnode use; a node imports nothing from here"),
)

#: Folders within a room, from the ground up: a module imports, of its room, only its own folder and those before it.
SUB_ROOMS: Final = {
    "p2p": ("transport", "discovery", "gossip", "messages", "judging", "node"),
    "app": ("ground", "stages", "roles", "process"),
}


def allowed_imports(room: Room) -> frozenset[str]:
    """The names of the rooms that ``room`` may import besides itself."""
    if room.imports is not None:
        return room.imports
    return frozenset(other.name for other in ROOMS[: ROOMS.index(room)])


def render() -> str:
    """The table for docs/architecture.md."""
    lines = ["| room | what it is | imports |", "|---|---|---|"]
    for room in ROOMS:
        if room.imports is None:
            imports = ""
        else:
            ground, others = ("the ground", _GROUND) if room.imports >= _GROUND else ("", frozenset[str]())
            names = [other.name for other in ROOMS if other.name in room.imports - others]
            imports = ", ".join(filter(None, (ground, *(f"`{name}`" for name in names)))) or "nothing"
        lines.append(f"| `{room.title}` | {room.purpose} | {imports} |".replace("|  |", "| |"))
    return "\n".join(lines)


def render_page(page: str) -> str:
    """``page`` with the table between its marks renewed; ValueError if it has no marks."""
    return renew(page, "rooms", render())


if __name__ == "__main__":
    renew_named_file(render_page)
