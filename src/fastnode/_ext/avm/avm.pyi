"""The interpreter of the public virtual machine: one enqueued call with everything it calls.

A field element is 32 bytes, big-endian, below the modulus; a run of them has no separators.  An address is a
field element.  Gas has two dimensions, L2 and DA.

The interpreter knows instructions, memory, gas and calls.  World state, side effects and their limits per
transaction belong to a *host*, an object with the methods of :class:`Host`, which are called on the thread that
called :meth:`Machine.execute`.  The GIL is released between two calls of the host.

How a call ends:

* *success* or *revert*: the program said so.  It returns data and keeps the gas it did not use.
* *halt*: an error.  All gas of the call is gone and it returns nothing.  A host halts the running call by
  raising :class:`~fastnode.errors.CallHalted`; its text is the reason, as the interpreter's own texts are.
* Any other exception of the host leaves :meth:`Machine.execute` at once, from any depth, without
  further calls of the host; checkpoints stay open and belong to the host.

The readable form of everything here is ``fastnode/_twins/avm.py``.
"""

from array import array
from typing import NamedTuple, Protocol

#: Only so many fields of a call's calldata and output are passed to the host and returned.
RECORDED_FIELDS: int

#: Members of a contract instance, as GETCONTRACTINSTANCE numbers them.
MEMBER_DEPLOYER: int
MEMBER_CLASS_ID: int
MEMBER_INITIALIZATION_HASH: int
MEMBER_IMMUTABLES_HASH: int

class Program:
    """Public bytecode, with its decoded instructions (decoded when first run, kept as long as this object).

    Make one for each contract class; any number of machines on any threads may run it at the same time.  It takes
    36 bytes for each byte of bytecode, of which the system provides those pages whose instructions are run.
    """

    def __init__(
        self,
        bytecode: bytes,
        *,
        copy_gas: int = 3,
        bitwise_gas: int = 3,
        point_gas: int = 270,
        members: int = 3,
        point_flags: bool = True,
        bounds_reads: bool = True,
    ) -> None:
        """ValueError for 4 GiB and more.

        What differs between releases: L2 gas for each field that CALLDATACOPY or RETURNDATACOPY copies, L2 gas of
        ECADD, members of an instance that GETCONTRACTINSTANCE knows, whether points of ECADD have flags that say that
        they are infinity (without, (0, 0) is infinity), and whether copies halt where they read beyond memory (else
        zeros are there).
        """

    @property
    def bytecode(self) -> bytes: ...

class Host(Protocol):
    """Surroundings of the interpreter, as it asks them.  ``address`` is always the contract that is running."""

    def enter(self, address: bytes, calldata: bytes) -> Program:
        """A call of ``address`` starts (the enqueued one, or a nested one): open a checkpoint, give its program.

        ``calldata`` holds at most :data:`RECORDED_FIELDS` fields.  CallHalted when there is no such contract or
        the transaction has used too many classes; :meth:`leave` follows then too.
        """

    def leave(self, success: bool, output: bytes, pcs: array[int], message: str) -> None:
        """The call entered last has ended: keep what changed since its checkpoint, or undo it without ``success``.

        ``output``: what it returned or reverted with, at most :data:`RECORDED_FIELDS` fields, nothing after a halt.
        ``pcs``: the open INTERNALCALL instructions, outermost first, then the instruction that ended the call; an
        array, because there may be millions.
        ``message``: empty after success, ``Assertion failed: `` after a revert, else the text of the halt.
        """

    def read_storage(self, address: bytes, slot: bytes) -> bytes:
        """The value in a slot of any contract (``address`` comes from the program); zero when never written."""

    def is_cold(self, address: bytes, slot: bytes) -> bool:
        """Has this slot not been written in this transaction (writes that were undone do not count)?"""

    def write_storage(self, address: bytes, slot: bytes, value: bytes) -> None:
        """Never called in a static call; CallHalted beyond the limit of slots."""

    def note_hash_exists(self, note_hash: bytes, index: int) -> bool:
        """Is this the leaf at that index (below 2^42) of the note hash tree?  An unused leaf is zero."""

    def emit_note_hash(self, address: bytes, note_hash: bytes) -> None:
        """A note hash that is not siloed.  Never called in a static call; CallHalted beyond the limit."""

    def nullifier_exists(self, siloed_nullifier: bytes) -> bool: ...
    def emit_nullifier(self, address: bytes, nullifier: bytes) -> None:
        """A nullifier that is not siloed.  Never in a static call; CallHalted beyond the limit, or when it exists."""

    def l1_to_l2_message_exists(self, message_hash: bytes, index: int) -> bool:
        """Is this the leaf at that index (below 2^36) of the tree of messages?  An unused leaf is zero."""

    def contract_instance_member(self, address: bytes, member: int) -> bytes | None:
        """A member of any contract's instance, one of ``MEMBER_*``; None when it is not deployed."""

    def has_room_for_public_log(self, size: int) -> bool:
        """May the transaction still emit a log of ``size`` fields?"""

    def emit_public_log(self, address: bytes, fields: bytes) -> None:
        """Never called in a static call; there is room for it."""

    def send_l2_to_l1_message(self, address: bytes, recipient: bytes, content: bytes) -> None:
        """``recipient`` is a field below 2^160.  Never called in a static call; CallHalted beyond the limit."""

    def count_debug_log(self, cells: int) -> None:
        """A debug log will read ``cells`` cells of memory (two for itself): raise TxExecutionError for too many."""

    def debug_log(self, address: bytes, level: int, message: bytes, fields: bytes) -> None:
        """``level`` 0 to 7; ``message`` is what the program has, UTF-8 or not."""

class Outcome(NamedTuple):
    """End of an enqueued call; the same as the host was told by its last :meth:`Host.leave`."""

    success: bool
    #: Return or revert data, at most :data:`RECORDED_FIELDS` fields.
    output: bytes
    l2_gas_left: int
    da_gas_left: int
    #: Empty after success.
    message: str

class Opening(NamedTuple):
    """The beginning of a call, beside its address and calldata."""

    sender: bytes
    is_static: bool
    #: All fields of its calldata, of which the host sees :data:`RECORDED_FIELDS` at most.
    calldata_fields: int
    l2_gas: int
    da_gas: int

class GasMeter(NamedTuple):
    """Gas of one call's own instructions of one kind.  ``HALT``: what the call has lost by its halt."""

    operation: str
    executions: int
    l2_gas: int
    da_gas: int

class Machine:
    """Runs the enqueued calls of one transaction, one after the other, on one thread at a time.

    ``memory_limit`` is in bytes, over all calls that are open at one time.  What counts: 256 bytes for every
    8 neighbouring memory cells of which one was written, 66 KiB for every open call (and for one that has
    ended while its return data can be read), 256 bytes for every 16 internal calls.  Nothing buys 256 bytes for less
    than 12 L2 gas, so that 256 MiB are out of reach of 12.5 million gas, twice what a transaction in a block has.

    ``shared_memory_limit`` (0: none) bounds what all machines with one have together beyond the first 16 MiB of each:
    ExecutionOutOfMemory for the machine that needs more.

    ``deadline`` is a time of :func:`time.monotonic`; it is looked at after some hundred instructions, or one that is as
    much work.

    A machine that ``is_watched`` meters the gas of each call by operation and keeps the steps (instructions) number
    ``first_step`` to ``first_step + steps_max - 1`` of all that it executes, 80 bytes each.
    """

    def __init__(
        self,
        host: Host,
        *,
        chain_id: bytes,
        version: bytes,
        block_number: int,
        timestamp: int,
        fee_per_l2_gas: int,
        fee_per_da_gas: int,
        collect_debug_logs: bool = True,
        memory_limit: int = 1 << 28,
        shared_memory_limit: int = 0,
        deadline: float | None = None,
        is_watched: bool = False,
        first_step: int = 0,
        steps_max: int = 0,
    ) -> None:
        """ValueError for a value that does not fit: fields 32 bytes, then u32, u64, u128, u128."""

    @property
    def opening(self) -> Opening:
        """The call that begins, for :meth:`Host.enter`."""

    @property
    def ending_gas(self) -> tuple[int, int]:
        """For :meth:`Host.leave`: L2 and DA gas that the call gives back."""

    @property
    def pc(self) -> int:
        """For the host of a watched machine: where the running call is in its program.  RuntimeError elsewhere."""

    @property
    def gas_meters(self) -> list[GasMeter]:
        """For :meth:`Host.leave` of a watched machine, unless the call had no program: its gas by operation."""

    @property
    def steps_taken(self) -> int:
        """Steps of a watched machine so far."""

    @property
    def step_count(self) -> int:
        """Number of steps that are kept."""

    def steps_json(self) -> bytes:
        """The steps that are kept as the elements of a JSON array, joined by commas, each::

            {"call":0,"pc":5,"operation":"ADD","l2GasLeft":..,"daGasLeft":..,"l2Gas":12,"daGas":0,"memory":[1,2,3]}

        ``call``: how many calls were entered before its own.  ``l2Gas``: what it cost, without calls that it made.
        ``memory``: the addresses that its operands mean.
        """

    def execute(
        self,
        address: bytes,
        sender: bytes,
        calldata: bytes,
        *,
        is_static: bool,
        transaction_fee: bytes,
        l2_gas: int,
        da_gas: int,
        l2_gas_limit: int,
        da_gas_limit: int,
    ) -> Outcome:
        """Run one enqueued call.

        ``l2_gas`` and ``da_gas`` are what it may use, negative when the transaction has overdrawn already;
        the limits are those of its phase and only appear in the text about running out of gas.

        Raises what the host raises, but for CallHalted; TxExecutionError for a debug log with a wrong tag or level;
        ExecutionTimeExceeded, ExecutionMemoryExceeded, ExecutionOutOfMemory and ExecutionCancelled; ValueError for an
        argument that is no field or no run of them; RuntimeError when the machine is running already.
        """

    def cancel(self) -> None:
        """Make the call that is running, and each later one, end with ExecutionCancelled soon; from any thread."""
