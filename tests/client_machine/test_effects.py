"""The order in which decisions are performed, which the library's helper thread and the simulated worlds share."""

import ctypes

from client_machine.helper import GIB, SECOND, Helper
from nvshare.client_machine.effects import Effect, EffectKind
from nvshare.client_machine.library import LIBRARY, Client, ClientDo, Config, GpuDo, TurnDo
from nvshare.wire import messages as wire

GPUS = range(EffectKind.STOP_DRAIN, EffectKind.FIGURES + 1)
EVERYTHING = sum(value for name, value in vars(ClientDo).items() if name.isupper())
SAYS = ClientDo.SAY_ALONE | ClientDo.SAY_LOST | ClientDo.SAY_BROKEN | ClientDo.SAY_HUNG | ClientDo.SAY_UNHEARD
EVERYTHING_AT_A_GPU = sum(
    value for kind in (TurnDo, GpuDo) for name, value in vars(kind).items() if name.isupper()
) & ~(TurnDo.REQUEST | TurnDo.RELEASE)


def full_client() -> Client:
    """With everything to be done, at two GPUs."""
    client = Client()
    LIBRARY.nvs_client_init(client, Config(), SECOND)
    for _ in range(2):
        LIBRARY.nvs_client_add_gpu(client, bytes(16), 0, GIB)
    client.out.todo, client.out.gpus = EVERYTHING, 0b11
    client.out.gpu_todo[0] = client.out.gpu_todo[1] = EVERYTHING_AT_A_GPU
    return client


def performed(client: Client, *, with_gpus: bool = True) -> list[tuple[int, int]]:
    found, effect = [], Effect()
    while LIBRARY.nvs_effects_next(client, with_gpus, ctypes.byref(effect)):
        found.append((effect.kind, effect.gpu))
        assert effect.notices == (SAYS if effect.kind == EffectKind.SAY else 0)
    return found


def test_effects_come_in_the_order_of_their_enum_and_those_of_gpus_one_gpu_after_the_other() -> None:
    before = [(kind, 0) for kind in EffectKind if kind < GPUS.start]
    after = [(kind, 0) for kind in EffectKind if kind >= GPUS.stop]
    client = full_client()
    assert performed(client) == [*before, *((kind, gpu) for gpu in (0, 1) for kind in GPUS), *after]
    assert (client.out.todo, client.out.gpus, list(client.out.gpu_todo[:2])) == (0, 0, [0, 0])


def test_the_deputy_leaves_what_is_to_be_done_at_gpus() -> None:
    client = full_client()
    assert performed(client, with_gpus=False) == [(kind, 0) for kind in EffectKind if kind not in GPUS]
    assert (client.out.todo, client.out.gpus) == (ClientDo.GPUS, 0b11)


def test_a_submission_that_is_let_through_ends_when_the_process_says_so() -> None:
    helper = Helper()
    helper.hear(wire.LetOne(0))
    assert (helper.done, helper.count(wire.Drained)) == (["let one through"], 0)
    helper.machine.let_done(0)
    assert helper.count(wire.Drained) == 1
