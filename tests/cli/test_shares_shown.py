"""What the status says of shares: what clients and groups had, may have and are due, and weights that are ignored."""

from msgspec.structs import replace

from cli.test_render import node, status
from nvshare import admin
from nvshare.cli.ctl import render
from nvshare.cli.ctl.status_table import status_table, weight_notes


def test_the_wide_status_shows_what_a_run_wanted_and_got() -> None:
    shown = node()
    first, *others = shown.clients
    seats = tuple(replace(seat, core_limit_percent=30, gpu_percent=28.9) for seat in first.seats)
    text = status_table(status(replace(shown, clients=(replace(first, seats=seats), *others))), is_wide=True)
    cells = [line[-10:] for line in text.splitlines() if line.startswith(admin.client_name(first.id))]
    assert cells == ["29% of 30%"] * len(seats)


def test_the_wide_status_shows_what_a_client_its_group_and_its_user_had_beside_what_it_is_due() -> None:
    shown = node()
    had = iter((31.2, 9.0))
    gpu = shown.gpus[0].uuid
    seats = [replace(one.seats[0], gpu=gpu, gpu_percent=next(had), due_percent=25.0) for one in shown.clients[:2]]
    one, other = (replace(shown.clients[at], group="pod/a", seats=(seats[at],)) for at in (0, 1))
    third = replace(shown.clients[2], seats=(replace(seats[0], gpu_percent=1.8, due_percent=None),))
    table = render.client_table(replace(shown, clients=(one, other, third)), is_wide=True).splitlines()
    rows = {line[:4]: line for line in table[1:]}
    begin, end = table[0].index("UTIL"), table[0].index("GPU TIME")
    assert rows[admin.client_name(one.id)][begin:end].split() == ["31%", "40%", "42%"]
    assert rows[admin.client_name(other.id)][begin:end].split() == ["9%", "40%", "42%"]
    begin, end = table[0].index("SHARE"), table[0].index("CORE")
    assert sorted(row[begin:end].strip() for row in rows.values()) == ["-", "31% of 25%", "9% of 25%"]
    plain = render.client_table(replace(shown, clients=(shown.clients[0],)), is_wide=True).splitlines()
    assert plain[1].split()[-2:] == ["-", "-"], "weights do not count, and it has no core limit"


def test_the_status_names_clients_whose_weight_the_policy_ignores() -> None:
    shown = replace(node(), policy="priority")
    first, second, *_ = shown.clients
    weighted = replace(shown, clients=(replace(first, weight=300), replace(second, weight=100)))
    name = f"{first.name} ({admin.client_name(first.id)})"
    (note,) = weight_notes(weighted)
    assert note == f"{name}: the weight has no effect: weights count only with policy fair, and the policy is priority."
    assert note in status_table(status(weighted), is_wide=False)
    assert weight_notes(replace(weighted, policy="fair")) == []
    assert weight_notes(replace(weighted, clients=(replace(second, weight=100),))) == []
