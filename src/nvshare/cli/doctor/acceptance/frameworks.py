"""Small runs of frameworks, in the interpreter where they are installed. Each runs under nvshare, checks a value that
went through the GPU, and prints `ok` at its end."""

import subprocess

from nvshare.cli.doctor.acceptance.results import Card
from nvshare.cli.doctor.acceptance.several import SkippedError
from nvshare.cli.doctor.acceptance.single import Measure, scheduler, under
from nvshare.cli.errors import CommandError
from nvshare.printable import last_line
from nvshare.simgpu.config import library_directory

FIND_S = 60

TORCH = """
import torch
a = torch.ones(1024, 1024, device="cuda")
assert float((a @ a)[0, 0]) == 1024.0
stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    b = a * 2
torch.cuda.current_stream().wait_stream(stream)
with torch.cuda.graph(graph):
    c = b + 1
graph.replay()
assert float(c[0, 0]) == 3.0
model = torch.nn.Linear(256, 256).cuda()
model(torch.ones(8, 256, device="cuda")).sum().backward()
assert model.weight.grad is not None
"""

CUPY = """
import cupy
a = cupy.ones((512, 512), dtype=cupy.float32)
assert float((a @ a)[0, 0]) == 512.0
"""

NUMBA = """
import numpy
from numba import cuda
@cuda.jit
def add(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1
x = cuda.to_device(numpy.zeros(1024, dtype=numpy.float32))
add[4, 256](x)
assert float(x.copy_to_host().sum()) == 1024.0
"""

JAX = """
import jax, jax.numpy as jnp
assert jax.default_backend() == "gpu", f"JAX uses the {jax.default_backend()}: is jax[cuda12] installed?"
a = jnp.ones((512, 512))
assert float(jax.jit(lambda x: (x @ x)[0, 0])(a)) == 512.0
"""

VLLM = """
import json, pathlib, tempfile
from vllm import LLM, SamplingParams
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "config.json").write_text(json.dumps({
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1024,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "torch_dtype": "float16", "hidden_act": "silu",
}))
llm = LLM(str(folder), load_format="dummy", skip_tokenizer_init=True, gpu_memory_utilization=0.3, max_model_len=256)
out = llm.generate({"prompt_token_ids": [1, 2, 3]}, SamplingParams(max_tokens=4, detokenize=False, ignore_eos=True))
assert len(out[0].outputs[0].token_ids) == 4
"""

NCCL = """
import os, torch, torch.distributed as d
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
store = d.HashStore()
d.init_process_group("nccl", store=store, rank=0, world_size=1)
a = torch.ones(1 << 20, device="cuda")
d.all_reduce(a)
assert float(a.sum()) == 1 << 20
d.destroy_process_group()
"""

SCRIPTS = {"torch": TORCH, "cupy": CUPY, "numba": NUMBA, "jax": JAX, "vllm": VLLM, "nccl": NCCL}
MODULES = {"nccl": "torch"}
"""The module that must be installed, if it has another name."""


def framework(name: str, python: str) -> Measure:
    """One framework; skipped where it is not installed."""

    def measure(card: Card) -> dict[str, float]:
        module = MODULES.get(name, name)
        if not _is_installed(module, python):
            raise SkippedError(f"{module} is not installed in {python}; --python names another interpreter")
        with scheduler(card) as paths:
            environment = under(card, paths, name=name)
            if card.is_simulated:
                environment["LD_PRELOAD"] += f":{library_directory() / 'libcudart.so.12'}"
            _run(python, SCRIPTS[name], environment)
        return {}

    return measure


def _is_installed(module: str, python: str) -> bool:
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, timeout=FIND_S, check=False)  # noqa: S603
    except OSError as error:
        raise CommandError(f"{python}: {error.strerror}") from None
    return done.returncode == 0


def _run(python: str, script: str, environment: dict[str, str]) -> None:
    command = [python, "-c", script + "\nprint('ok')\n"]
    done = subprocess.run(  # noqa: S603 - the interpreter that the user named
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode or not done.stdout.rstrip().endswith("ok"):
        raise CommandError(last_line(done.stderr) or f"it ended with exit code {done.returncode}")
