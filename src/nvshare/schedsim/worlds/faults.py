"""What goes wrong in a world, how often, and the play from beginning to end."""

import traceback
from collections.abc import Callable
from functools import partial

from nvshare.core import events as ev
from nvshare.core.model import GIB, MIB, MILLISECOND, SECOND
from nvshare.core.modes import MODES
from nvshare.core.queue.policies import POLICIES
from nvshare.record import Record
from nvshare.schedsim.worlds.process import Process
from nvshare.schedsim.worlds.world import GPUS, MAX_PROCESSES, World


class Played(Record, frozen=True):
    """A world that kept all laws. The digest is over every step; the same seed gives the same one."""

    seed: int
    steps: int
    digest: int


class BrokenWorldError(Exception):
    """A law was broken; says in which world, at which step, and what the last steps were."""

    def __init__(self, world: World, steps: int, error: Exception) -> None:
        last = "\n".join(
            f"  {now / SECOND:.6f} {event}\n      {list(actions)}" for now, event, actions in world.daemon.journal
        )
        where = "".join(traceback.format_tb(error.__traceback__)[-3:])
        super().__init__(
            f"the last steps:\n{last}\n{where}seed {world.seed}, step {world.daemon.steps} (of worlds with {steps}"
            f" steps), at {world.now / SECOND:.6f} s: {type(error).__name__}: {error}"
        )
        self.seed = world.seed
        self.step = world.daemon.steps


def play(seed: int, steps: int) -> Played:
    """One world of about so many steps, then its calm end."""
    world = World(seed)
    try:
        _fail_soon(world)
        world.play(steps=steps)
        world.calm_down()
    except Exception as error:
        raise BrokenWorldError(world, steps, error) from error
    return Played(seed, world.daemon.steps, world.daemon.digest)


def _fail_soon(world: World) -> None:
    def fail() -> None:
        if not world.chance.is_calm:
            if (
                not world.daemon.is_hung or world.chance.random() < 0.1
            ):  # rarely two at once: the first one must be noticed
                world.chance.choices(list(FAULTS), list(FAULTS.values()))[0](world)
            _fail_soon(world)

    world.timeline.at(world.chance.randrange(2 * SECOND) * world.pace, fail)


def _someone(world: World) -> Process | None:
    return world.chance.choice(list(world.processes.values())) if world.processes else None


def _lose_connection(world: World) -> None:
    if process := _someone(world):
        world.daemon.cut(process)


def _stop(world: World) -> None:
    """SIGSTOP, and SIGCONT a while later: shorter or longer than the grace time."""
    process = _someone(world)
    if process is not None and not process.is_stopped:
        process.stop()
        world.timeline.at(world.chance.randrange(world.chance.choice([SECOND, 30 * SECOND])), process.go_on)


def _hang(world: World) -> None:
    """The scheduler takes a process for hung; its next PING says otherwise. It does not look while it hangs itself."""
    process = _someone(world)
    if process is None or process.connection is None or world.daemon.node is None or world.daemon.is_hung:
        return
    if process.connection.client in world.daemon.node.clients:
        world.daemon.tell(ev.ClientSilent(process.connection.client))


def _kill(world: World) -> None:
    if process := _someone(world):
        world.kill(process)


def _while_it_moves(world: World, *, to_host: bool) -> tuple[Process, str] | None:
    """Some process that moves memory now, and where."""
    moving = [
        (process, gpu)
        for process in world.processes.values()
        for gpu, use in process.uses.items()
        if use.mover.is_moving and use.mover.to_host >= to_host
    ]
    return world.chance.choice(moving) if moving else None


def _kill_while_it_moves_out(world: World) -> None:
    if found := _while_it_moves(world, to_host=True):
        world.kill(found[0])


def _free_while_it_moves(world: World) -> None:
    if found := _while_it_moves(world, to_host=False):
        process, gpu = found
        share = world.chance.choice([1, 2])
        process.do(lambda: process.free(gpu, share))


def _stop_moving_or_try_again(world: World) -> None:
    """A process notices that its prefetches have no effect, or tries again."""
    if process := _someone(world):
        gpu = world.chance.choice(list(process.uses))
        process.do(lambda: process.stop_moving_or_try_again(gpu))


def _restart_between_the_halves_of_a_switch(world: World) -> None:
    """The scheduler is killed while one moves out and the other moves in."""
    if _while_it_moves(world, to_host=True):
        _restart_daemon(world)


def _spawn(world: World) -> None:
    if len(world.processes) < MAX_PROCESSES:
        world.spawn()


def _restart_daemon(world: World) -> None:
    world.daemon.kill()
    world.timeline.at(
        world.chance.randrange(world.chance.choice([SECOND, 10 * SECOND, 30 * SECOND])), world.daemon.start
    )


def _hang_daemon(world: World) -> None:
    """For shorter or longer than clients take to notice."""
    world.daemon.hang()
    world.timeline.at(world.chance.randrange(world.chance.choice([SECOND, 100 * SECOND])), world.daemon.go_on)


def _storm_limits(world: World) -> None:
    """Many changes of limits within a moment."""
    for _ in range(world.chance.randint(1, 20)):
        group = world.chance.choice(world.groups)
        limit = world.chance.choice([None, 0, GIB, 3 * GIB, 8 * GIB])
        change = ev.LimitSet(group, limit)
        world.timeline.at(world.chance.randrange(20 * MILLISECOND), partial(world.daemon.tell, change))


def _jump_clock(world: World) -> None:
    """The machine slept, or the scheduler's clock was set back for a while."""
    if world.chance.random() < 0.5:
        world.sleep(world.chance.randrange(60 * SECOND))
        return
    back = world.chance.randrange(10 * SECOND)
    world.daemon.clock_error += back

    def correct() -> None:
        world.daemon.clock_error -= back

    world.timeline.at(world.chance.randrange(5 * SECOND), correct)


def _ring_for_nothing(world: World) -> None:
    """Alarms that nobody set, several at once."""
    for _ in range(3):
        world.daemon.tell(ev.AlarmRang())


def _measure(world: World) -> None:
    foreign = world.chance.choice([0, 0, GIB, 14 * GIB])
    world.daemon.tell(ev.MemoryMeasured(world.chance.choice(GPUS), foreign, world.chance.choice([None, 300 * MIB])))


def _switch_off(world: World) -> None:
    world.daemon.tell(ev.SchedulingSwitched(False))
    world.timeline.at(world.chance.randrange(5 * SECOND), lambda: world.daemon.tell(ev.SchedulingSwitched(True)))


def _set_quantum(world: World) -> None:
    if world.pace != 1:
        return
    if MODES[world.settings.quantum.mode].learns:
        mode = world.chance.choice([mode for mode in MODES if mode != "fixed"])
        world.daemon.tell(ev.ModeSet(mode, world.chance.choice([None, *GPUS])))
        return
    quantum = world.chance.choice([SECOND, 10 * SECOND])
    world.daemon.tell(ev.QuantumSet(quantum, world.chance.choice([None, *GPUS])))


def _pause(world: World) -> None:
    """A group or a GPU gets no turns for a while."""
    group = world.chance.choice([*world.groups, None])
    gpu = world.chance.choice(GPUS) if group is None else None
    world.daemon.tell(ev.PauseSet(True, group, gpu))
    resume = ev.PauseSet(False, group, gpu)
    world.timeline.at(world.chance.randrange(10 * SECOND), lambda: world.daemon.tell(resume))


def _limit_cores(world: World) -> None:
    """A group may use only a part of each GPU's time for a while."""
    group = world.chance.choice(world.groups)
    world.daemon.tell(ev.CoreLimitSet(group, world.chance.choice([5, 30, 90])))
    end = ev.CoreLimitSet(group, None)
    time_ns = world.chance.choice([10 * SECOND, 200 * SECOND // world.pace])
    world.timeline.at(world.chance.randrange(time_ns), lambda: world.daemon.tell(end))


def _give_order(world: World) -> None:
    """The operator changes ranks, or ends turns."""
    group = world.chance.choice(world.groups)
    orders: list[ev.Event] = [
        ev.YieldAsked(gpu=world.chance.choice(GPUS)),
        ev.PolicySet(world.chance.choice(list(POLICIES))),
        ev.WeightSet(group, world.chance.choice([None, 1, 1000])),
        ev.PrioritySet(group, world.chance.choice([None, -10, 10])),
    ]
    world.daemon.tell(world.chance.choice(orders))


FAULTS: dict[Callable[[World], None], float] = {
    _lose_connection: 3,
    _stop: 4,
    _hang: 2,
    _kill: 2,
    _kill_while_it_moves_out: 1,
    _free_while_it_moves: 2,
    _stop_moving_or_try_again: 0.5,
    _spawn: 4,
    _restart_daemon: 1,
    _restart_between_the_halves_of_a_switch: 1,
    _hang_daemon: 1,
    _storm_limits: 2,
    _jump_clock: 1,
    _ring_for_nothing: 2,
    _measure: 1,
    _switch_off: 0.3,
    _set_quantum: 0.5,
    _pause: 0.5,
    _limit_cores: 0.5,
    _give_order: 1,
}
