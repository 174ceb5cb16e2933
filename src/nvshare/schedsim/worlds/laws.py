"""What must hold in every world at every step, whatever fails. A broken law is a bug in the core, in
libnvshare's client machine, or here.

The core's own full check runs at each step besides (Node's `is_paranoid`)."""

from collections.abc import Iterable

from nvshare.client_machine.library import TurnState
from nvshare.core import actions as ac
from nvshare.core.limits.shared_limit import SharedLimit
from nvshare.core.model import SECOND, UNLIMITED
from nvshare.core.node import Node
from nvshare.schedsim.worlds.process import Process


def check_numbers(given: set[int], actions: list[ac.Action]) -> None:
    """A lock number stands for one turn, in the life of every daemon, and its client is told it once."""
    for action in actions:
        if isinstance(action, ac.GiveLock):
            assert action.lock not in given, f"lock {action.lock:#x} was given twice"
            given.add(action.lock)


def check_budgets(node: Node, actions: list[ac.Action]) -> None:
    """Nobody is given more budget than its group's limit leaves."""
    for action in actions:
        if isinstance(action, ac.GiveBudget) and action.serial and action.budget != UNLIMITED:
            group = node.clients[action.client].group
            shared = group.limits[action.gpu]
            if shared.limit and len(shared.shares) > 1:
                total = sum(share.bound for share in shared.shares.values())
                assert total <= shared.limit, f"budgets of {group.key} reach {total}, over {shared.limit}"


def check_claims(node: Node, gpus: Iterable[str]) -> None:
    """Pods that have a claim in common share a limit, and the limits of a GPU are not more than was claimed there."""
    for gpu in gpus if node.prepared_claims else ():
        limits: dict[SharedLimit, dict[str, int]] = {}
        shared_by: dict[str, SharedLimit] = {}
        for group in node.groups.values():
            parts = group.claims.parts_on(gpu) if gpu in group.limits else {}
            for label in parts:
                shared = shared_by.setdefault(label, group.limits[gpu])
                assert shared is group.limits[gpu], f"{group.key} does not share {label} on {gpu}"
                limits.setdefault(shared, {}).update(parts)
        for shared, claimed in limits.items():
            assert 0 < shared.limit <= sum(claimed.values()), f"a limit of {shared.limit} for {claimed} on {gpu}"


def check_moves(node: Node, actions: list[ac.Action]) -> None:
    """Nobody is asked to move more than it has, or although it said that it moves nothing."""
    for action in actions:
        if isinstance(action, ac.MoveOut | ac.MoveIn):
            seat = node.clients[action.client].seats[action.gpu]
            assert action.most <= seat.memory.swappable, f"{action.most} bytes shall move of {seat.memory.swappable}"
            assert not seat.not_moving, f"memory shall move although {seat.not_moving}"


def check_process(node: Node, process: Process) -> None:
    """What the core counts for a process is never less than what the process believes to have."""
    connection = process.connection
    if connection is None or not process.machine.is_registered or connection.client not in node.clients:
        return
    client = node.clients[connection.client]
    for gpu, use in process.uses.items():
        share = client.group.limits[gpu].shares[connection.client]
        assert use.account.budget <= share.bound, f"p{process.pid} believes in more budget than it was given"


def check_agreement(node: Node, processes: list[Process]) -> None:
    """Once all messages have arrived, the scheduler and every process agree on who holds what."""
    for process in processes:
        connection = process.connection
        assert connection is not None, f"p{process.pid} found its way back"
        assert process.machine.is_registered, f"p{process.pid} was answered"
        for gpu, use in process.uses.items():
            seat = node.clients[connection.client].seats[gpu]
            state, lock = process.machine.state(use.index), process.machine.turns[use.index].lock
            assert not use.mover.is_moving, f"p{process.pid} still moves memory of {gpu}"
            counted = [seat.moved.in_bytes, seat.moved.out_bytes]
            assert counted == use.told_moved, f"p{process.pid} moved {use.told_moved} at {gpu}, counted were {counted}"
            who = f"p{process.pid} at {gpu}: {state.name} {lock:#x}, lock {seat.lock:#x}, rank {seat.rank}"
            if state is TurnState.HOLDING:
                assert seat.lock == lock, who
            elif state is TurnState.WAITING:
                assert seat.is_waiting, who
            else:
                assert state is TurnState.NONE, who
                assert not seat.lock, who
                assert not seat.is_waiting, who


def has_progressed(processes: list[Process], before: dict[tuple[int, str], int]) -> bool:
    """Every thread that stood at a gate has passed it."""
    uses = {(process.pid, gpu): use for process in processes for gpu, use in process.uses.items()}
    return all(uses[key].worked > worked for key, worked in before.items())


def check_progress(processes: list[Process], before: dict[tuple[int, str], int]) -> None:
    """Every thread that stood at a gate when the failures ended has passed it since."""
    for process in processes:
        for gpu, use in process.uses.items():
            if (process.pid, gpu) in before:
                worked = use.worked > before[process.pid, gpu]
                assert worked, f"p{process.pid} still waits for {gpu} ({process.machine.state(use.index).name})"


def check_nobody_waits_for_the_hung(processes: list[Process], since: int) -> None:
    """A process that could notice that the scheduler does not answer runs meanwhile, and has kept its connection."""
    for process in processes:
        connection = process.connection
        if process.is_stopped or process.went_on_at > since or connection is None or not process.machine.is_registered:
            continue
        for gpu, use in process.uses.items():
            drains = process.machine.state(use.index) is TurnState.DRAINING or use.drained_at > since
            waits = use.waits_since is not None and use.waits_since <= since and not drains
            assert not waits, f"p{process.pid} waits for {gpu} and for a scheduler that hangs"


def check_nobody_waits_for_the_absent(processes: list[Process], away_since: int, then: int) -> None:
    """A thread that came to a gate before `then`, when the scheduler was away already, runs without it."""
    for process in processes:
        if process.is_stopped or max(process.went_on_at, away_since) > then:
            continue
        for gpu, use in process.uses.items():
            waits = use.waits_since is not None and use.waits_since <= then
            assert not waits, f"p{process.pid} waits for {gpu} although there is no scheduler"


def check_looks(process: Process) -> None:
    """What a process reports of its GPU time is what it had: looks are samples, one in a millisecond or in 16."""
    for use, looker in process.lookers.pairs:
        wrong = abs(looker.reported_ns - looker.busy_ns)
        most = looker.looked_ns // 20 + looker.unsure_ns + SECOND // 2
        assert wrong <= most, (
            f"p{process.pid} at {use.gpu} had work for {looker.busy_ns} ns and reported {looker.reported_ns}"
        )


def check_rest(processes: list[Process], before: dict[tuple[int, str], int], after: dict[tuple[int, str], int]) -> None:
    """Nobody works: a process that has said so is not charged, whether it holds a lock or not."""
    for process in processes:
        for use, _ in process.lookers.pairs:
            assert process.connection is not None, f"p{process.pid} has no scheduler"
            key = process.connection.client, use.gpu
            more = after[key] - before[key]
            assert not more, f"p{process.pid} is charged {more} ns of {use.gpu} although it rests"


def check_gangs(node: Node, actions: list[ac.Action]) -> None:
    """A job gets all its locks or none, in the order of the UUIDs, and drops all. A process alone may get one
    lock before the others: where it fits without a switch."""
    given = [(one.client, one.gpu) for one in actions if isinstance(one, ac.GiveLock)]
    dropped = {(one.client, one.gpu) for one in actions if isinstance(one, ac.DropLock) and one.cause != "claim"}
    for gang in node.gangs.all.values():
        members = {(seat.client, uuid) for uuid, seat in gang.seats.items()}
        here = [uuid for client, uuid in given if (client, uuid) in members]
        if gang.is_job and here:
            assert here == sorted(here), "locks of a job are given in the order of the UUIDs"
            assert not gang.waiting(), "a job gets all its locks or none"
        if gang.is_job and members & dropped and not node.is_settling:  # Then gangs decide nothing yet.
            held = {uuid for uuid, seat in gang.seats.items() if seat.state == "staying"}
            assert held <= set(here), "a job drops all its locks"
