"""The messages and services that kubelet is spoken to with are those of the release: compared with k8s.io/kubelet."""

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from google.protobuf.descriptor_pb2 import (  # type: ignore[import-untyped]
    DescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from grpc_tools import protoc

from e2e.dra import needs_shared_claims
from nvshare.dra import service
from nvshare.dra.api import dra_pb2
from nvshare.plugin.api import deviceplugin_pb2
from settings import KUBELET_API, KUBERNETES_MINOR

DRA = ("dra/v1", "dra/v1beta1", "dra-health/v1alpha1", "pluginregistration/v1")
IF_THERE = ("dra-health/v1",) if KUBERNETES_MINOR >= 37 else ()
SERVICES = [*service.PLUGIN_SERVICES.values(), *service.HEALTH_SERVICES.values(), service.REGISTRATION_SERVICE]


def upstream(folder: Path, name: str) -> FileDescriptorProto:
    """A file of kubelet's API, compiled."""
    out = folder / "compiled"
    line = ["protoc", f"-I{KUBELET_API / name}", f"--descriptor_set_out={out}", str(KUBELET_API / name / "api.proto")]
    assert protoc.main(line) == 0
    (file,) = FileDescriptorSet.FromString(out.read_bytes()).file
    return file


def ours(module: Any) -> FileDescriptorProto:
    made = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(made)
    return made


def fields(file: FileDescriptorProto) -> dict[str, set[tuple[object, ...]]]:
    """By message and enum: everything that is on the wire."""
    found: dict[str, set[tuple[object, ...]]] = {}
    for enum in file.enum_type:
        found[enum.name] = {(value.name, value.number) for value in enum.value}
    for message in file.message_type:
        _add(found, message, "")
    return found


def _add(found: dict[str, set[tuple[object, ...]]], message: DescriptorProto, prefix: str) -> None:
    name = f"{prefix}{message.name}"
    found[name] = {
        (it.name, it.number, it.type, it.label, it.type_name.rpartition(".")[2], it.proto3_optional)
        for it in message.field
    }
    for nested in message.nested_type:
        _add(found, nested, f"{name}.")


def methods(file: FileDescriptorProto) -> dict[str, set[tuple[object, ...]]]:
    """By the service's full name: its methods, their messages, and which of them are streams."""
    return {
        f"{file.package}.{each.name}": {
            (
                it.name,
                it.input_type.rpartition(".")[2],
                it.output_type.rpartition(".")[2],
                it.client_streaming,
                it.server_streaming,
            )
            for it in each.method
        }
        for each in file.service
    }


class _Call(NamedTuple):
    method: str
    invocation_metadata: tuple[()] = ()


def test_the_device_plugin_speaks_kubelets_own_api(tmp_path: Path) -> None:
    theirs, made = upstream(tmp_path, "deviceplugin/v1beta1"), ours(deviceplugin_pb2)
    assert fields(made) == fields(theirs)
    assert methods(made) == methods(theirs)


@needs_shared_claims
def test_the_dra_drivers_messages_are_kubelets(tmp_path: Path) -> None:
    made = fields(ours(dra_pb2))
    together: dict[str, set[tuple[object, ...]]] = {}
    for name in DRA + IF_THERE:
        for message, found in fields(upstream(tmp_path, name)).items():
            assert found <= made.get(message, set()), f"{message} of {name}"
            together.setdefault(message, set()).update(found)
    assert {message: made[message] - found for message, found in together.items() if made[message] - found} == {}
    assert set(made) == set(together)


@needs_shared_claims
@pytest.mark.parametrize("name", [*DRA, *IF_THERE])
def test_the_dra_driver_serves_each_method_under_kubelets_name(name: str, tmp_path: Path) -> None:
    handlers = [*service.plugin_handlers(None, service.DeviceHealth("pool", {})),  # type: ignore[arg-type]
                service.registration_handler("endpoint", lambda registered, error: None)]  # fmt: skip
    for full_name, found in methods(upstream(tmp_path, name)).items():
        assert full_name in SERVICES
        for method, _, _, reads_stream, writes_stream in found:
            served = [it for handler in handlers if (it := handler.service(_Call(f"/{full_name}/{method}")))]
            assert [(it.request_streaming, it.response_streaming) for it in served] == [(reads_stream, writes_stream)]
