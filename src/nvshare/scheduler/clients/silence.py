"""Finds clients that hang: they would send PING if they could.

A client of protocol version 2 that waits, or holds a contended lock, sends PING when it has received nothing for 10 s.
So it hangs if nothing was received from it for UNHEARD_SWEEPS and nothing was sent to it for UNTOLD_SWEEPS: a message
to a client delays its PING. The core decides what follows (core.events.ClientSilent).

Connections only record that a message came or went; every SWEEP_S seconds all of them are checked. This costs one
assignment per message, and no timer. The n-th sweep after a message is between (n - 1) * SWEEP_S and n * SWEEP_S later.
So a hanging client is found 24 to 28 s after its last message, when two of its PINGs are missing, and not before 16 s
after the last message to it."""

import asyncio

from nvshare.core.client import Client
from nvshare.core.events import ClientSilent
from nvshare.core.node import Node
from nvshare.scheduler.engine import Engine

SWEEP_S = 4.0
UNHEARD_SWEEPS = 7
UNTOLD_SWEEPS = 5


class SilenceWatch:
    """Tells the core once of each client that falls silent."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep()

    def sweep(self) -> None:
        for client, connection in list(self._engine.connections.items()):
            connection.unheard_sweeps += 1
            connection.untold_sweeps += 1
            if (
                connection.sends_ping
                and connection.unheard_sweeps >= UNHEARD_SWEEPS
                and connection.untold_sweeps >= UNTOLD_SWEEPS
                and client in self._engine.node.clients
                and _must_speak(self._engine.node, self._engine.node.clients[client])
            ):
                self._engine.post(ClientSilent(client))


def _must_speak(node: Node, client: Client) -> bool:
    """Whether it waits or holds a contended lock. A client that counts as silent already does neither."""
    return any(
        seat.state == "waiting" or (seat.state == "staying" and node.gpus[gpu].turns.is_contended)
        for gpu, seat in client.seats.items()
    )
