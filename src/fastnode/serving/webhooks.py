"""Webhooks: feeds (feeds.py) that are sent to servers of the operator's choice, one POST for each message.

    commit ─► Webhook, in a thread of its own ─► next message from the chain ─► POST, signed ─► 2xx: cursor kept on disk
                         ▲                                                    │
                         └────── after a growing pause, the same message ─────┘ anything else

The chain is the queue: nothing is kept but where a hook is.  The cursor is kept after the answer, so a message comes at
least once, and once more if the node ends in between; what comes twice has the same id.  Messages of one hook come in
order.  Redirects are answers like any other that is no 2xx, and are not followed.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit, urlunsplit

import orjson

from fastnode import interpreter
from fastnode.artifacts.naming import Naming
from fastnode.errors import BlockPruned, InvalidParams, SettingError, UpstreamFault, UpstreamUnavailable
from fastnode.files import make_folder, read_checked_file, replace_checked_file, system_reason
from fastnode.log import log_facts
from fastnode.loop import CLOCK, Clock, Loop
from fastnode.outgoing.network import ClientLimits, Network
from fastnode.records import dataclass
from fastnode.serving.feeds import Feed, event_of, feed_of, gap_message, messages_of_block, pruned_message
from fastnode.serving.seen_blocks import Cursor, SeenBlocks, block_id
from fastnode.values.urls import check_url, host_of

if TYPE_CHECKING:
    from fastnode.archiver.queries import ChainView
    from fastnode.artifacts.store import ArtifactStore
    from fastnode.view import Committed, View

__all__ = ["DIRECTORY", "SIGNATURE", "Hook", "Webhook", "Webhooks", "hooks_of", "read_secret", "signature"]

logger = logging.getLogger("fastnode.webhooks")

DIRECTORY: Final = "webhooks"
SIGNATURE: Final = "X-Fastnode-Signature"
DELIVERY: Final = "X-Fastnode-Delivery"
HOOKS_MAX: Final = 32
SECRET_BYTES_MIN: Final = 16
SECRET_BYTES_MAX: Final = 4096
#: Cursors that are kept, the newest first: a reorg is found from them after a restart.
CURSORS_MAX: Final = 128
LIMITS: Final = ClientLimits(request_time_s=15.0, connect_time_s=5.0, response_bytes_max=64 * 1024)
#: Pauses after the first and after many failures, in seconds, less up to half of it by chance.
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
#: A receiver may ask for a longer one, up to this.
RETRY_AFTER_MAX_S: Final = 3600.0
_DOUBLINGS_MAX: Final = 16
#: Messages after which the chain is looked at anew: a view that is held keeps the database from tidying up.
MESSAGES_PER_VIEW: Final = 256
_REMEMBERED: Final = 64
_SETTING: Final = "--webhook-url"
_dice = random.SystemRandom()


class Hook:
    """One ``--webhook-url``: the URL without its fragment, the feed that the fragment names, and where it begins."""

    __slots__ = ("feed", "first", "name", "skips_pruned", "url")

    def __init__(self, text: str) -> None:
        """SettingError, which has nothing of the URL's path: that may be a secret."""
        parts = urlsplit(check_url(text, _SETTING))
        self.url = urlunsplit(parts._replace(fragment=""))
        host = host_of(self.url)
        topic, _, rest = (parts.fragment or "blocks").partition("&")
        given = parse_qs(rest, keep_blank_values=True, max_num_fields=1000)
        wanted: dict[str, Any] = {"topic": topic}
        for name, values in given.items():
            wanted[name] = values if name in ("tags", "txHashes") else values[0]
        first, pruned = wanted.pop("from", None), wanted.pop("pruned", "stop")
        if "names" in wanted:
            wanted["names"] = {"true": True, "false": False}.get(wanted["names"], wanted["names"])
        try:
            self.feed: Feed = feed_of(wanted)
        except InvalidParams as error:
            raise SettingError(f"{_SETTING} of {host}: {error.message.removeprefix('Invalid params: ')}") from None
        if not self.feed.has_history:
            raise SettingError(f"{_SETTING} of {host}: {topic} has no history to go on in; subscribe over WebSocket")
        if first is not None and not (first.isdigit() and len(first) <= 10):
            raise SettingError(f"{_SETTING} of {host}: from must be a block number")
        if pruned not in ("stop", "skip"):
            raise SettingError(f"{_SETTING} of {host}: pruned must be stop or skip")
        #: True if blocks that are pruned before they are told are passed by, with an event that says so.
        self.skips_pruned = pruned == "skip"
        #: The first block that is told; None: those that come after the first start.
        self.first = None if first is None else int(first)
        self.name = f"{host} {self.feed.name}"

    @property
    def file_name(self) -> str:
        return hashlib.blake2b(f"{self.url}#{self.feed.name}".encode(), digest_size=12).hexdigest()


def hooks_of(texts: Sequence[str]) -> list[Hook]:
    """SettingError."""
    if len(texts) > HOOKS_MAX:
        raise SettingError(f"{_SETTING} is given {len(texts)} times; the limit is {HOOKS_MAX}")
    hooks = [Hook(text) for text in texts]
    if len({hook.file_name for hook in hooks}) < len(hooks):
        raise SettingError(f"{_SETTING}: the same URL has the same subscription twice")
    return hooks


def read_secret(file: Path | None) -> bytes:
    """The secret with which messages are signed, without blanks around it.  SettingError."""
    if file is None:
        raise SettingError(
            f"{_SETTING} needs --webhook-secret-file, a file with the secret that messages are signed with"
        )
    try:
        with file.open("rb") as opened:  # a pipe has no end until its writer says so
            secret = opened.read(SECRET_BYTES_MAX + 2).strip()
    except OSError as error:
        raise SettingError(f"--webhook-secret-file {file}: {system_reason(file, error)}") from None
    if not SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX:
        range_ = f"{SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}"
        raise SettingError(f"--webhook-secret-file {file}: a secret has {range_} bytes, this one {len(secret)}")
    return secret


def signature(secret: bytes, timestamp: int, body: bytes) -> str:
    """Value of the header: HMAC-SHA256 of the time in seconds, a dot and the body."""
    digest = hmac.new(secret, b"%d.%b" % (timestamp, body), hashlib.sha256).hexdigest()
    return f"t={timestamp},v1={digest}"


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a hook in the chain."""

    #: Name of its beginning, and the messages that were taken since.
    life: str
    sent_count: int
    #: The newest first; it was at one of them, whatever blocks were taken back since.
    cursors: tuple[Cursor, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """The newest message was not taken."""

    reason: str
    since: float
    #: Tries in a row.
    count: int


class Webhook:
    """One hook.  :meth:`step` belongs to one thread; what it counts may be read from any.

        UNPLACED ── the file, or the newest block ──► DELIVERING ── a message is not taken ──► FAILING ──┐
                                                          ▲                                      ▲       │
                                                          └── it is taken ───────────────────────┴───────┘

    It is UNPLACED without a :class:`Place`, and FAILING with a :class:`Failure`, whose pauses grow.

    ``file`` keeps the cursors.  ``chance`` gives a number from 0 to 1.
    """

    def __init__(
        self,
        hook: Hook,
        secret: bytes,
        file: Path,
        view: Callable[[], View | None],
        network: Network,
        artifacts: ArtifactStore | None = None,
        *,
        clock: Clock = CLOCK,
        chance: Callable[[], float] = _dice.random,
    ) -> None:
        self.hook = hook
        self.delivered = 0
        self.failures = 0
        #: Blocks that are not told yet, at the last look.
        self.behind = 0
        #: None: the newest message was taken.
        self.failure: Failure | None = None
        self._secret = secret
        self._file = file
        self._view = view
        self._network = network
        self._artifacts = artifacts
        self._chance = chance
        self._place: Place | None = None
        self._seen: SeenBlocks | None = None
        self._not_before = 0.0
        self.loop = Loop(
            "fastnode-webhook", self.step, what=f"the webhook of {hook.name} is not delivered", clock=clock
        )

    def invariant(self) -> None:
        """AssertionError unless a hook that has a place has one to go on from, and one that fails says of what."""
        place, failure = self._place, self.failure
        assert place is None or 1 <= len(place.cursors) <= CURSORS_MAX
        assert failure is None or (failure.reason and 1 <= failure.count <= self.failures)
        assert self.behind >= 0

    @property
    def trouble(self) -> str | None:
        """Reason why messages are not delivered, for /status; nothing of the URL but its host."""
        failure = self.failure
        if failure is None:
            return self.loop.trouble
        since = time.strftime("%H:%M:%S", time.gmtime(failure.since))
        reason = failure.reason
        return f"webhook {self.hook.name}: not delivered since {since} UTC, {self.behind} blocks behind: {reason}"

    # ---- sending -----------------------------------------------------------------------------

    def step(self) -> float | None:
        """Send what there is; returns seconds to wait before the next try, None: until there is something new."""
        left = self._not_before - self.loop.clock.time()
        if left > 0:  # a commit has ended the pause
            return min(left, RETRY_AFTER_MAX_S)
        view = self._view()
        if view is None:
            return None
        chain = view.chain
        try:
            messages = self._messages(chain)
            for _ in range(MESSAGES_PER_VIEW):
                if self.loop.is_stopping:
                    return None
                with interpreter.BUSY:
                    told = next(messages, None)
                if told is None:
                    return None
                cursor, text = told
                if text and not self._send(event_of(text)):
                    return self._pause()
                self._keep(cursor, is_sent=bool(text))
        except BlockPruned as error:
            self._note(
                f"{error.message}. It goes on from block {error.oldest}, and says what it leaves out, once its URL has "
                f"pruned=skip in the fragment"
            )
            return self._pause()
        except ValueError as error:
            self._note(str(error))
            return self._pause()
        return 0.0

    def _messages(self, chain: ChainView) -> Iterator[tuple[Cursor, bytes]]:
        """Messages from where the hook is to the tip, and the cursor behind each; empty ones move the cursor alone.
        ValueError for cursors of another chain, BlockPruned for logs that are not kept."""
        seen = self._advanced(chain)
        cursors = self._where(chain)
        feed, tip = self.hook.feed, chain.tip_number
        place = seen.place_of(chain, cursors)
        if place is None:  # the node has lost blocks, and will have them again
            return
        self.behind = max(0, tip - place.number)
        if place.pruned:
            yield pruned_message(feed, chain, place.pruned)
        number, part = place.number, place.part
        while number < tip:
            try:
                following = feed.next_block(chain, number + 1, tip)
            except BlockPruned as error:
                if not self.hook.skips_pruned or error.oldest <= number + 1:
                    raise
                logger.warning(
                    "a webhook leaves out blocks that are pruned",
                    extra=log_facts(webhook=self.hook.name, first=number + 1, last=error.oldest - 1),
                )
                yield gap_message(feed, chain, range(number + 1, error.oldest))
                number, part = error.oldest - 1, 0
                continue
            if following is None:
                yield Cursor.at(block_id(chain, tip)), b""
                break
            naming = Naming(self._artifacts, chain) if feed.with_names and self._artifacts is not None else None
            yield from messages_of_block(chain, feed, following, part if following == number + 1 else 0, naming)
            number, part = following, 0
            self.behind = tip - number
        self.behind = 0

    def _advanced(self, chain: ChainView) -> SeenBlocks:
        seen = self._seen
        if seen is None:
            seen = self._seen = SeenBlocks(chain, chain.tip_number - _REMEMBERED)
        elif chain.tips.proposed != seen.tip:
            seen.take_back(chain)
            seen.go_on(chain, seen.tip.number + 1, chain.tip_number)
        return seen

    def _send(self, body: bytes) -> bool:
        place = self._place
        assert place is not None
        timestamp = int(self.loop.clock.time())
        headers = {
            "Content-Type": "application/json",
            SIGNATURE: signature(self._secret, timestamp, body),
            # By number: what a receipt says may be another thing when it is sent again.
            DELIVERY: f"{place.life}-{place.sent_count + 1}",
        }
        retry_after_s: float | None = None
        try:
            answer = self._network.post(self.hook.url, body, LIMITS, headers)
        except (UpstreamUnavailable, UpstreamFault) as error:
            reason = str(error)
        else:
            if 200 <= answer.status < 300:
                self._note(None)
                self.delivered += 1
                return True
            self._network.forget(self.hook.url)  # a late answer to this message is none to the same one sent again
            retry_after_s = answer.retry_after_s
            is_redirect = "location" in answer.headers
            reason = f"it answers {answer.status}" + (", a redirect, which is not followed" if is_redirect else "")
        self._note(reason)
        if retry_after_s is not None:
            self._not_before = self.loop.clock.time() + min(retry_after_s, RETRY_AFTER_MAX_S)
        return False

    def _note(self, reason: str | None) -> None:
        if reason is None:
            if self.failure is not None:
                logger.info("a webhook is delivered again", extra=log_facts(webhook=self.hook.name))
            self.failure, self._not_before = None, 0.0
            return
        before = self.failure or Failure(reason, self.loop.clock.time(), 0)
        if self.failure is None:
            logger.warning("a webhook is not delivered", extra=log_facts(webhook=self.hook.name, reason=reason))
        self.failures += 1
        self.failure = Failure(reason, before.since, before.count + 1)

    def _pause(self) -> float:
        if self.loop.is_stopping:
            return 0.0
        doublings = 0 if self.failure is None else self.failure.count - 1
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(doublings, _DOUBLINGS_MAX))
        now = self.loop.clock.time()
        self._not_before = max(self._not_before, now + pause * (1 - self._chance() / 2))
        return self._not_before - now

    # ---- where it is -------------------------------------------------------------------------

    def _where(self, chain: ChainView) -> Sequence[Cursor]:
        if self._place is None:
            self._place = self._kept_place()
        if self._place is None:
            before = chain.tip_number if self.hook.first is None else min(chain.tip_number, max(0, self.hook.first - 1))
            self._keep(Cursor.at(block_id(chain, before)), is_sent=False)
        assert self._place is not None
        return self._place.cursors

    def _kept_place(self) -> Place | None:
        """The place that is kept, if there is one.  A damaged file counts as none, and is named."""
        try:
            kept = orjson.loads(read_checked_file(self._file))
            cursors = [Cursor.read(text) for text in kept["cursors"]]
            place = Place(str(kept["life"]), int(kept["sent"]), tuple(each for each in cursors if each is not None))
            return place if place.cursors else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.error(
                "the place of a webhook cannot be read: it begins anew",
                extra=log_facts(webhook=self.hook.name, reason=str(error)),
            )
            return None

    def _keep(self, cursor: Cursor, *, is_sent: bool) -> None:
        """On disk when this returns; OSError."""
        before = self._place or Place(secrets.token_hex(4), 0, ())
        place = Place(before.life, before.sent_count + is_sent, (cursor, *before.cursors[: CURSORS_MAX - 1]))
        record = {"life": place.life, "sent": place.sent_count, "cursors": [str(each) for each in place.cursors]}
        replace_checked_file(self._file, orjson.dumps(record), mode=0o600)
        self._place = place


class Webhooks:
    """All hooks of a node, each in a thread.  ``directory`` keeps where they are; ``view``: the newest one;
    ``artifacts``: names for the hooks that want them."""

    def __init__(
        self,
        hooks: Sequence[Hook],
        secret: bytes,
        directory: Path,
        view: Callable[[], View | None],
        artifacts: ArtifactStore | None = None,
    ) -> None:
        make_folder(directory)
        self._network = Network()
        self.each = [
            Webhook(hook, secret, directory / hook.file_name, view, self._network, artifacts) for hook in hooks
        ]

    def start(self) -> None:
        for each in self.each:
            each.loop.start()

    def close(self) -> None:
        """End deliveries under way, and wait for the threads."""
        for each in self.each:
            each.loop.interrupt()
        self._network.close()
        for each in self.each:
            each.loop.close()

    def on_committed(self, _committed: Committed) -> None:
        for each in self.each:
            each.loop.wake()

    def state(self) -> str:
        """A line for /status."""
        delivered, behind = sum(each.delivered for each in self.each), max(each.behind for each in self.each)
        return (
            f"{len(self.each)} webhooks, {delivered} messages delivered since the start, at most {behind} blocks behind"
        )

    def troubles(self) -> dict[str, str | None]:
        """Hooks that do not deliver, and why, for /status."""
        named = [trouble for each in self.each if (trouble := each.trouble) is not None]
        return {"webhooks": "; ".join(named) if named else None}
