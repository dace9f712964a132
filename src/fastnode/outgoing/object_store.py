"""Errors of object stores (S3, Google Cloud Storage, folders), in the words of the provider.

The library that reads them gives one text: its own words, the URL, the duration, the status, the body of the answer,
and where in the library the error was raised.
"""

from __future__ import annotations

import re
from typing import Final

from fastnode.outgoing.client import decoded
from fastnode.outgoing.quoting import FORBIDDEN, described, without_secrets_of
from fastnode.records import dataclass

__all__ = ["StoreFailure"]

#: An error document has a few KiB at most.
_DOCUMENT_BYTES_MAX: Final = 1 << 16
_WHERE_IN_THE_LIBRARY: Final = re.compile(r"\n+Debug source:.*", re.DOTALL)
#: Of the URL only the host is hidden: names of buckets and files are no secrets.
_REQUEST: Final = re.compile(r".*?Error performing [A-Z]+ ([^/\s]*//[^/\s]*)\S* in .*? - (.*)", re.DOTALL)
_STATUS: Final = re.compile(r"Server returned non-2xx status code: (\d{3})[^:]*:? ?(.*)", re.DOTALL)
_CODE: Final = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]*)</Message>")


@dataclass(frozen=True, slots=True)
class StoreFailure:
    """Why a store did not do as it was asked.  ``status``: HTTP status of its answer, None where it gave none.

    ``reason`` has neither the host of the store nor keys: ``HTTP status 403: AccessDenied: ...``.
    """

    reason: str
    status: int | None

    @classmethod
    def of(cls, error: BaseException) -> StoreFailure:
        text = _WHERE_IN_THE_LIBRARY.sub("", str(error).strip())
        request = _REQUEST.fullmatch(text)
        url, text = ("", text) if request is None else (request[1], request[2])
        answer = _STATUS.fullmatch(text)
        if answer is None:
            line = (text or type(error).__name__).splitlines()[0]
            return cls(without_secrets_of(url, line), None)
        status, body = int(answer[1]), answer[2].encode()[:_DOCUMENT_BYTES_MAX]
        document = _xml(answer[2]) or decoded(body, _DOCUMENT_BYTES_MAX)
        reason = " ".join(described(status, document, body, url).split())
        if status in FORBIDDEN:
            reason += " (check the credentials in the environment)"
        return cls(reason, status)


def _xml(body: str) -> dict[str, str] | None:
    """An error document of S3, and of Google's interface in its form, as JSON documents are; None for another one."""
    found = [match[1].strip() for match in (_CODE.search(body), _MESSAGE.search(body)) if match is not None]
    return {"message": ": ".join(filter(None, found))} if any(found) else None
