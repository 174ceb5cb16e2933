"""A plain, blocking connection to the operator's socket."""

import contextlib
import os
import socket
from collections.abc import Generator
from typing import TypeVar

from nvshare import admin
from nvshare.config import DEFAULT_OPERATOR_SOCKET, OPERATOR_SOCKET_VARIABLE

PATIENCE_S = 10.0
AnswerT = TypeVar("AnswerT", bound=admin.Answer)


class UnreachableError(Exception):
    """No scheduler answers; the text names the remedy."""


class RefusedError(Exception):
    """The scheduler said no; the text is its reason."""


def default_socket() -> str:
    """Where the scheduler is: as the environment says, else the machine's if it answers, else this user's own."""
    named = os.environ.get(OPERATOR_SOCKET_VARIABLE)
    if named:
        return named
    if not _is_machines_own_usable():
        from nvshare.cli.places import private_places

        for place in private_places():
            return place.operator_socket
    return DEFAULT_OPERATOR_SOCKET


def _is_machines_own_usable() -> bool:
    from nvshare.cli.failure import FrontError
    from nvshare.cli.places import answers as is_answering

    try:
        return is_answering(DEFAULT_OPERATOR_SOCKET)
    except FrontError:
        return False  # it may be root's alone


def ask_for(kind: type[AnswerT], path: str, request: admin.Request, *, patience_s: float = PATIENCE_S) -> AnswerT:
    """The same as `ask` for a question whose answer has a kind of its own."""
    answer = ask(path, request, patience_s=patience_s)
    if not isinstance(answer, kind):
        raise admin.AdminError(f"the scheduler's answer is not understood ({answer}); is it of another version?")
    return answer


def ask(path: str, request: admin.Request, *, patience_s: float = PATIENCE_S) -> admin.AnyAnswer:
    """One question, one answer; raises RefusedError if that is a no."""
    with contextlib.closing(answers(path, request, patience_s=patience_s)) as lines:
        answer = next(lines, None)
    if answer is None:
        raise UnreachableError(f"the scheduler at {path} closed the connection; see its log")
    if isinstance(answer, admin.Failed):
        raise RefusedError(answer.reason)
    return answer


def answers(
    path: str, request: admin.Request, *, patience_s: float, forever: bool = False
) -> Generator[admin.AnyAnswer, None, None]:
    """One question, answers until the scheduler closes. `forever`: wait for each as long as it takes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(patience_s)
        _connect(connection, path)
        try:
            with contextlib.suppress(BrokenPipeError):  # Refused before it asked: the answer is there to be read.
                connection.sendall(admin.encode(request))
            if forever:
                connection.settimeout(None)
            with connection.makefile("rb") as lines:
                for line in lines:
                    yield admin.decode_answer(line)
        except TimeoutError:
            raise UnreachableError(f"the scheduler at {path} does not answer; is it stopped?") from None
        except ConnectionError:
            raise UnreachableError(f"the scheduler at {path} closed the connection; see its log") from None


def _connect(connection: socket.socket, path: str) -> None:
    try:
        connection.connect(path)
    except FileNotFoundError:
        raise UnreachableError(f"no scheduler at {path}; start nvshare-scheduler, or name its --socket") from None
    except ConnectionRefusedError:
        raise UnreachableError(f"the scheduler at {path} is not running; start nvshare-scheduler") from None
    except TimeoutError:
        raise UnreachableError(f"the scheduler at {path} does not answer; is it stopped?") from None
    except PermissionError:
        raise UnreachableError(f"{path} may not be opened by this user; try sudo") from None
    except OSError as error:
        raise UnreachableError(f"{path} cannot be used: {error.strerror or error}") from None
