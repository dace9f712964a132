"""Calls through JSON-RPC libraries of PyPI; run by test_libraries.py with the libraries on the path.

Reads ``{"url": ..., "calls": [[method, params], ...], "size": calls in a batch}`` from standard input and prints, by
library, the outcomes of the calls one by one (``single``) and in batches (``batch``): ``["result", value]``,
``["error", code]``, or ``["failed", text]`` for what the library does not accept; and whether a notification passed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import jsonrpcclient
import jsonrpclib
import requests
from jsonrpclib.jsonrpc import MultiCallMethod, TransportError
from tinyrpc import RPCClient
from tinyrpc.protocols.jsonrpc import JSONRPCProtocol
from tinyrpc.transports.http import HttpPostClientTransport
from web3 import Web3

Outcome = list[Any]
Calls = list[tuple[str, list[Any]]]


def outcome_of(call: Callable[[], Any], code_of: Callable[[Exception], int | None]) -> Outcome:
    try:
        return ["result", call()]
    except Exception as error:  # noqa: BLE001 - it is what the library says
        code = code_of(error)
        return ["failed", f"{type(error).__name__}: {error}"[:300]] if code is None else ["error", code]


class Pelix:
    name = "jsonrpclib-pelix"

    def __init__(self, url: str) -> None:
        self._server = jsonrpclib.ServerProxy(url)

    @staticmethod
    def _code(error: Exception) -> int | None:
        first = error.args[0] if error.args else None
        return first[0] if isinstance(error, jsonrpclib.ProtocolError) and isinstance(first, tuple) else None

    def call(self, method: str, params: list[Any]) -> Outcome:
        return outcome_of(lambda: self._server._request(method, params), self._code)

    def batch(self, calls: Calls) -> list[Outcome]:
        several = jsonrpclib.MultiCall(self._server)
        for method, params in calls:
            job = MultiCallMethod(method)
            job(*params)
            several._job_list.append(job)
        answers = several()
        return [outcome_of(lambda index=index: answers[index], self._code) for index in range(len(calls))]

    def notify(self, method: str, params: list[Any]) -> None:
        # It takes no status but 200, also where there is nothing to say.
        try:
            self._server._request_notify(method, params)
        except TransportError as error:
            if error.args[1] != HTTPStatus.NO_CONTENT:
                raise


class Jsonrpcclient:
    name = "jsonrpcclient"

    def __init__(self, url: str) -> None:
        self._url = url
        self._session = requests.Session()

    @staticmethod
    def _outcome(answer: Any) -> Outcome:
        if isinstance(answer, jsonrpcclient.Ok):
            return ["result", answer.result]
        return ["error", answer.code]

    def call(self, method: str, params: list[Any]) -> Outcome:
        try:
            answer = self._session.post(self._url, json=jsonrpcclient.request(method, params=tuple(params)))
            return self._outcome(jsonrpcclient.parse(answer.json()))
        except Exception as error:  # noqa: BLE001 - as above
            return ["failed", f"{type(error).__name__}: {error}"[:300]]

    def batch(self, calls: Calls) -> list[Outcome]:
        asked = [jsonrpcclient.request(method, params=tuple(params)) for method, params in calls]
        answers = {each.id: each for each in jsonrpcclient.parse(self._session.post(self._url, json=asked).json())}
        return [self._outcome(answers[each["id"]]) for each in asked]

    def notify(self, method: str, params: list[Any]) -> None:
        answer = self._session.post(self._url, json=jsonrpcclient.notification(method, params=tuple(params)))
        assert (answer.status_code, answer.content) == (204, b"")


class Web3Py:
    name = "web3.py"

    def __init__(self, url: str) -> None:
        self._web3 = Web3(Web3.HTTPProvider(url, exception_retry_configuration=None))

    @staticmethod
    def _code(error: Exception) -> int | None:
        response = getattr(error, "rpc_response", None)
        return response["error"]["code"] if response else None

    def call(self, method: str, params: list[Any]) -> Outcome:
        return outcome_of(lambda: self._web3.manager.request_blocking(method, params), self._code)

    def batch(self, calls: Calls) -> list[Outcome]:
        answers = self._web3.provider.make_batch_request(calls)
        formatted = self._web3.manager.formatted_response
        return [
            outcome_of(lambda answer=answer, call=call: formatted(answer, call[1]), self._code)
            for answer, call in zip(answers, calls, strict=True)
        ]

    notify = None


class Tinyrpc:
    name = "tinyrpc"

    def __init__(self, url: str) -> None:
        self._protocol = JSONRPCProtocol()
        self._transport = HttpPostClientTransport(url)
        self._client = RPCClient(self._protocol, self._transport)

    @staticmethod
    def _code(error: Exception) -> int | None:
        return getattr(error, "_jsonrpc_error_code", None)

    def call(self, method: str, params: list[Any]) -> Outcome:
        return outcome_of(lambda: self._client.call(method, params, {}), self._code)

    def batch(self, calls: Calls) -> list[Outcome]:
        asked = self._protocol.create_batch_request(
            [self._protocol.create_request(method, params, {}) for method, params in calls]
        )
        answers = {
            each.unique_id: each for each in self._protocol.parse_reply(self._transport.send_message(asked.serialize()))
        }
        found = [answers[each.unique_id] for each in asked]
        return [
            ["error", each._jsonrpc_error_code] if hasattr(each, "error") else ["result", each.result] for each in found
        ]

    def notify(self, method: str, params: list[Any]) -> None:
        self._client.call(method, params, {}, one_way=True)


def pieces(calls: Calls, size: int) -> Iterator[Calls]:
    for start in range(0, len(calls), size):
        yield calls[start : start + size]


def main() -> None:
    asked = json.load(sys.stdin)
    calls: Calls = [tuple(call) for call in asked["calls"]]
    told: dict[str, Any] = {}
    for kind in (Pelix, Jsonrpcclient, Web3Py, Tinyrpc):
        client: Any = kind(asked["url"])
        single = [client.call(*call) for call in calls]
        batch = [outcome for piece in pieces(calls, asked["size"]) for outcome in client.batch(piece)]
        notified = None
        if client.notify is not None:
            client.notify(*calls[0])
            notified = True
        told[kind.name] = {"single": single, "batch": batch, "notified": notified}
    # Records of web3.py are mappings of its own.
    json.dump(told, sys.stdout, default=lambda value: value.__dict__)


main()
