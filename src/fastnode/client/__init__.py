"""A node of the network from Python: ``from fastnode import AsyncClient, Client``.

:mod:`fastnode.client.prepared` makes calls for batches, :mod:`fastnode.client.records` has the types of what is
answered, and :mod:`fastnode.verify` checks it.
"""

from fastnode.client import prepared
from fastnode.client.calls import Call
from fastnode.client.client import AsyncClient, Client
from fastnode.client.subscriptions import AsyncSubscription, Event, Subscription

__all__ = ["AsyncClient", "AsyncSubscription", "Call", "Client", "Event", "Subscription", "prepared"]
