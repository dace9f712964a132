"""A node of the network from Python: ``from fastnode import AsyncClient, Client``, on a chain of release 5.x
``AsyncClient5, Client5``.

:mod:`fastnode.client.prepared` makes calls for batches, :mod:`fastnode.client.records` has the types of what is
answered, and :mod:`fastnode.verify` checks it.
"""

from fastnode.client import prepared, prepared5
from fastnode.client.calls import Call
from fastnode.client.client import AsyncClient, AsyncClient5, Client, Client5
from fastnode.client.subscriptions import AsyncSubscription, Event, Subscription

__all__ = [
    "AsyncClient",
    "AsyncClient5",
    "AsyncSubscription",
    "Call",
    "Client",
    "Client5",
    "Event",
    "Subscription",
    "prepared",
    "prepared5",
]
