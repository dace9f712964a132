"""Locks on duties: of all nodes that hold a validator's key, exactly one signs each duty.

    take ──── not begun by a node ─► a lock ──── finish(signature) ───► signed, for good
      │                                │
      │                                └──────── fail() ──────────────► free again
      ├── signed ────────────────────► DutyAlreadySigned
      ├── another message ───────────► DutyConflict: signing it would be the offense
      └── another node is signing ───► waits; DutyInProgress if it takes too long

The row is the lock: its primary key is the duty, so PostgreSQL lets one node insert it.  A node that dies in between
leaves a stuck row; ``clean_up_stuck`` removes those of the node itself once they are old.  Its owner may have been slow
instead of dead, therefore a signature may be published only after ``finish`` has returned: it refuses when the lock is
gone.

The lock's token is made before the row is written.  When the connection breaks and it is not known whether the row
arrived, the same statement is sent again, and the token in the row identifies its owner.  Statements are retried until
``DATABASE_TIMEOUT_S`` has passed, which covers the restart or failover of a server.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import psycopg

from fastnode.errors import (
    DutyAlreadySigned,
    DutyConflict,
    DutyInProgress,
    DutyLockLost,
    HaDatabaseError,
    HaDatabaseUnreachable,
    SettingError,
)
from fastnode.ha.connection import DURABLE, NOW, Connection, disconnect_after, is_unavailable, one_line
from fastnode.ha.duty import Duty, DutyLock, DutyType
from fastnode.ha.pool import ConnectionPool, PoolLimits
from fastnode.log import log_facts
from fastnode.records import dataclass

if TYPE_CHECKING:
    from fastnode.config.settings import Settings

__all__ = ["CleanUpAges", "Duty", "DutyLock", "DutyLocks", "DutyType"]

logger = logging.getLogger(__name__)

Result = TypeVar("Result")

_TOKEN_BYTES: Final = 32
_HASH_BYTES: Final = 32
_SIGNATURE_BYTES: Final = 65
_NODE_ID_CHARACTERS_MAX: Final = 255

#: How long a question is repeated while the database is unavailable.
DATABASE_TIMEOUT_S: Final = 10.0

_KEY: Final = (
    "rollup_address = %s AND validator_address = %s AND slot = %s AND duty_type = %s"
    " AND block_index_within_checkpoint = %s"
)

_TAKE: Final = f"""
    WITH {DURABLE}
    INSERT INTO validator_duties (
        rollup_address, validator_address, slot, duty_type, block_index_within_checkpoint,
        block_number, status, message_hash, node_id, lock_token, started_at)
    SELECT %s, %s, %s, %s, %s, %s, 'signing', %s, %s, %s, {NOW} FROM durable
    ON CONFLICT DO NOTHING"""

_READ: Final = f"SELECT status, message_hash, signature, node_id, lock_token FROM validator_duties WHERE {_KEY}"

# Asked twice, over a connection that broke in between, it finds what it did itself.  A clock that was set back must
# not keep a signature from being recorded.
_FINISH: Final = f"""
    WITH {DURABLE}
    UPDATE validator_duties
    SET status = 'signed', signature = %s, completed_at = greatest(started_at, {NOW})
    FROM durable
    WHERE {_KEY} AND lock_token = %s AND (status = 'signing' OR signature = %s)"""

_FAIL: Final = f"DELETE FROM validator_duties WHERE {_KEY} AND lock_token = %s AND status = 'signing'"

_CLEAN_UP_STUCK: Final = f"""
    DELETE FROM validator_duties
    WHERE node_id = %s AND status = 'signing' AND started_at < {NOW} - %s"""

_CLEAN_UP_OTHERS: Final = """
    DELETE FROM validator_duties WHERE node_id = %s AND rollup_address <> %s"""

_CLEAN_UP_SIGNED: Final = f"""
    DELETE FROM validator_duties WHERE status = 'signed' AND started_at < {NOW} - %s"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpAges:
    """After how many seconds an unfinished duty of this node is freed, and a signed one forgotten; None: never."""

    stuck_s: float | None = None
    signed_s: float | None = None


class DutyLocks:
    """The duties of one node; threads may share them.

    ``node_id`` names the node among those that share the database.  A lost connection is made again.
    """

    def __init__(
        self,
        url: str,
        *,
        node_id: str,
        polling_interval_s: float = 0.1,
        signing_timeout_s: float = 3.0,
        ages: CleanUpAges | None = None,
        pool: PoolLimits | None = None,
    ) -> None:
        """HaDatabaseError when the database cannot be used."""
        if not 0 < len(node_id) <= _NODE_ID_CHARACTERS_MAX:
            raise ValueError(f"a node id has 1 to {_NODE_ID_CHARACTERS_MAX} characters")
        self._node_id = node_id
        self._polling_interval_s = polling_interval_s
        self._signing_timeout_s = signing_timeout_s
        self._ages = ages or CleanUpAges()
        self._pool = ConnectionPool(url, pool)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As the VALIDATOR_HA_... settings say; SettingError when one that is needed is missing."""
        url, node_id = settings.validator_ha_database_url, settings.validator_ha_node_id
        if url is None or node_id is None:
            raise SettingError("redundant validators need VALIDATOR_HA_DATABASE_URL and VALIDATOR_HA_NODE_ID")
        stuck_ms, signed_h = settings.validator_ha_max_stuck_duties_age_ms, settings.validator_ha_old_duties_max_age_h
        return cls(
            url,
            node_id=node_id,
            polling_interval_s=settings.validator_ha_polling_interval_ms / 1000,
            signing_timeout_s=settings.validator_ha_signing_timeout_ms / 1000,
            ages=CleanUpAges(
                stuck_s=None if stuck_ms is None else stuck_ms / 1000,
                signed_s=None if signed_h is None else signed_h * 3600.0,
            ),
            pool=PoolLimits(
                connections_min=settings.validator_ha_pool_min,
                connections_max=settings.validator_ha_pool_max,
                idle_s=settings.validator_ha_pool_idle_timeout_ms / 1000,
                wait_s=settings.validator_ha_pool_connection_timeout_ms / 1000,
            ),
        )

    def close(self) -> None:
        """May be called more than once."""
        self._pool.close()

    def __enter__(self) -> DutyLocks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- a duty's life -------------------------------------------------------------------------

    def take(self, duty: Duty, message_hash: bytes) -> DutyLock:
        """The lock, if no node has begun the duty.

        Waits up to the signing timeout for a node that is signing: if it fails, the duty is free for this one.
        DutyAlreadySigned (with the signature), DutyConflict, DutyInProgress, or HaDatabaseError; in all four
        cases nothing may be signed.
        """
        _require_length("a message hash", message_hash, _HASH_BYTES)
        lock = DutyLock(duty, message_hash, secrets.token_hex(_TOKEN_BYTES))
        deadline = time.monotonic() + self._signing_timeout_s
        while True:
            if self._try_to_take(lock):
                return lock
            if time.monotonic() >= deadline:
                raise DutyInProgress(f"{duty}: another node has begun to sign and does not finish")
            time.sleep(self._polling_interval_s)

    def finish(self, lock: DutyLock, signature: bytes) -> None:
        """Record the signature, which may be published once this has returned.

        DutyLockLost: the row was cleaned up meanwhile, another node may have signed; the signature must be
        thrown away.
        """
        _require_length("a signature", signature, _SIGNATURE_BYTES)
        text = _hex(signature)
        parameters = (text, *lock.duty.key, lock.token, text)
        if self._ask(lambda connection: connection.execute(_FINISH, parameters).rowcount) == 0:
            raise DutyLockLost(f"{lock.duty}: the lock is gone, the signature must not be used")

    def fail(self, lock: DutyLock, reason: str) -> None:
        """Free a duty that was not signed, so that another node may sign it."""
        parameters = (*lock.duty.key, lock.token)
        self._ask(lambda connection: connection.execute(_FAIL, parameters).rowcount)
        logger.warning("a duty was not signed", extra=log_facts(duty=str(lock.duty), reason=reason))

    # ---- clean-up --------------------------------------------------------------------------------

    def clean_up(self, *, stuck_s: float | None = None, rollup: bytes | None = None) -> int:
        """All of the below, as the ages say that this node was given; how many rows went.

        ``stuck_s``: where no age is given; ``rollup``: the one whose duties of this node are kept, None: of all.
        """
        ages = self._ages
        stuck_s = stuck_s if ages.stuck_s is None else ages.stuck_s
        freed = 0 if stuck_s is None else self.clean_up_stuck(stuck_s)
        freed += 0 if ages.signed_s is None else self.clean_up_signed(ages.signed_s)
        return freed + (0 if rollup is None else self.clean_up_others(rollup))

    def clean_up_others(self, rollup: bytes) -> int:
        """Forget what this node signed for other rollups than this one; how many."""
        return self._clean_up("duties of other rollups forgotten", _CLEAN_UP_OTHERS, (self._node_id, _hex(rollup)))

    def clean_up_stuck(self, age_s: float) -> int:
        """Free what this node began more than ``age_s`` seconds ago and never finished; how many."""
        return self._clean_up("stuck duties freed", _CLEAN_UP_STUCK, (self._node_id, timedelta(seconds=age_s)))

    def clean_up_signed(self, age_s: float) -> int:
        """Forget signed duties, of all nodes, that began more than ``age_s`` seconds ago; how many.

        A node that gets a duty that old could sign it again: keep them longer than any duty can be asked for.
        """
        return self._clean_up("old duties forgotten", _CLEAN_UP_SIGNED, (timedelta(seconds=age_s),))

    def _clean_up(self, message: str, statement: str, parameters: tuple[Any, ...]) -> int:
        count = self._ask(lambda connection: connection.execute(statement.encode(), parameters).rowcount)
        if count:
            logger.info(message, extra=log_facts(count=count))
        return count

    # ---- database --------------------------------------------------------------------------------

    def _try_to_take(self, lock: DutyLock) -> bool:
        """False: another node is signing the same message."""
        key = lock.duty.key
        row = (*key, lock.duty.block_number, _hex(lock.message_hash), self._node_id, lock.token)

        def insert_or_read(connection: Connection) -> tuple[Any, ...] | None:
            if connection.execute(_TAKE, row).rowcount == 1:
                return "signing", _hex(lock.message_hash), None, self._node_id, lock.token
            return connection.execute(_READ, key).fetchone()

        found = self._ask(insert_or_read)
        if found is None:
            return False  # freed between the two statements: the next turn may get it
        status, message_hash, signature, node_id, token = found
        if token == lock.token:
            return True
        if message_hash != _hex(lock.message_hash):
            raise DutyConflict(f"{lock.duty}: node {node_id} has begun to sign another message, {message_hash}")
        if status == "signed":
            raise DutyAlreadySigned(f"{lock.duty}: signed by node {node_id}", bytes.fromhex(signature[2:]))
        return False

    def _ask(self, question: Callable[[Connection], Result]) -> Result:
        """The answer; every question may be asked twice, as it is repeated while the database is unavailable."""
        deadline = time.monotonic() + DATABASE_TIMEOUT_S
        pause_s = 0.0
        while True:
            try:
                return self._ask_once(question, deadline - time.monotonic())
            except HaDatabaseUnreachable as error:
                if time.monotonic() + pause_s >= deadline:
                    raise
                logger.warning("database of duties unavailable, retrying", extra=log_facts(reason=str(error)))
            self._pool.drop_idle()
            time.sleep(pause_s)
            pause_s = self._polling_interval_s

    def _ask_once(self, question: Callable[[Connection], Result], timeout_s: float) -> Result:
        with self._pool.connection() as connection:
            try:
                with disconnect_after(connection, timeout_s):
                    return question(connection)
            except psycopg.Error as error:
                if not is_unavailable(connection, error):
                    raise HaDatabaseError(f"the database of duties refuses: {one_line(error)}") from error
                connection.close()
                raise HaDatabaseUnreachable(f"the database of duties is unavailable: {one_line(error)}") from error


def _require_length(what: str, value: bytes, length: int) -> None:
    if len(value) != length:
        raise ValueError(f"{what} has {length} bytes, not {len(value)}")


def _hex(value: bytes) -> str:
    return "0x" + value.hex()
