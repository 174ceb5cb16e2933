"""What Allocate gives a container."""

from nvshare.plugin.container import Container, Injection, Mount, Options, Strategy, container

DIRECTORIES = (
    Mount(host="/var/run/nvshare", container="/var/run/nvshare"),
    Mount(host="/var/run/nvshare/lib", container="/usr/lib/nvshare"),
)
PRELOAD = {"LD_PRELOAD": "/usr/lib/nvshare/libnvshare.so"}
AS_NEEDED = {"TF_FORCE_GPU_ALLOW_GROWTH": "true", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


def test_by_environment_variable() -> None:
    assert container(["GPU-a", "GPU-b"], Options()) == Container(
        envs={"NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b", **PRELOAD, **AS_NEEDED}, mounts=DIRECTORIES
    )


def test_by_volume_mounts() -> None:
    root = "/var/run/nvidia-container-devices"
    assert container(["GPU-a"], Options(strategy=Strategy.VOLUME_MOUNTS)) == Container(
        envs={"NVIDIA_VISIBLE_DEVICES": root, **PRELOAD, **AS_NEEDED},
        mounts=(Mount(host="/dev/null", container=f"{root}/GPU-a"), *DIRECTORIES),
    )


def test_by_cdi_the_images_own_wish_for_all_gpus_is_voided() -> None:
    assert container(["GPU-a"], Options(strategy=Strategy.CDI)) == Container(
        envs={"NVIDIA_VISIBLE_DEVICES": "void", **PRELOAD, **AS_NEEDED},
        mounts=DIRECTORIES,
        cdi_devices=("nvidia.com/gpu=GPU-a",),
    )


def test_by_ld_so_preload_the_environment_names_no_library() -> None:
    made = container(["GPU-a"], Options(injection=Injection.LD_SO_PRELOAD, host_run_dir="/srv/nvshare"))
    assert made == Container(
        envs={"NVIDIA_VISIBLE_DEVICES": "GPU-a", **AS_NEEDED},
        mounts=(
            Mount(host="/srv/nvshare", container="/var/run/nvshare"),
            Mount(host="/srv/nvshare/lib", container="/usr/lib/nvshare"),
            Mount(host="/srv/nvshare/lib/ld.so.preload", container="/etc/ld.so.preload"),
        ),
    )


def test_frameworks_may_be_left_to_allocate_what_they_like() -> None:
    made = container(["GPU-a"], Options(preallocate=True))
    assert made.envs == {"NVIDIA_VISIBLE_DEVICES": "GPU-a", **PRELOAD}
