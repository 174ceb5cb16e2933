"""The small runs of frameworks, as Python. Each gets two names: REAL (false on a simulated card, whose kernels compute
nothing and which cuBLAS does not accept) and RANKS (how many processes NCCL connects).

What must hold everywhere: memory is allocated and freed, copied bytes are the same, and work ends. What kernels compute
is checked if REAL."""

TORCH = """
import torch
source = torch.arange(1 << 20)
assert torch.equal(source.cuda().cpu(), source)
a = torch.ones(1024, 1024, device="cuda")
assert torch.cuda.memory_allocated() >= a.nbytes
stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    b = a * 2
torch.cuda.current_stream().wait_stream(stream)
with torch.cuda.graph(graph):
    c = b + 1
graph.replay()
torch.cuda.synchronize()
weight = torch.nn.Parameter(torch.ones(1 << 16, device="cuda"))
(weight * 3).sum().backward()
torch.cuda.synchronize()
assert weight.grad.shape == weight.shape
if REAL:
    assert float(c[0, 0]) == 3.0
    assert float(weight.grad[0]) == 3.0
    assert float((a @ a)[0, 0]) == 1024.0
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
source = numpy.arange(1024, dtype=numpy.float32)
x = cuda.to_device(source)
add[4, 256](x)
assert numpy.array_equal(x.copy_to_host(), source + REAL)
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
import os, tempfile, torch, torch.distributed as d
store = tempfile.mkdtemp() + "/store"
child = os.fork() if RANKS > 1 else -1
rank = int(child == 0)
torch.cuda.set_device(rank)
d.init_process_group("nccl" if REAL else "gloo", store=d.FileStore(store, RANKS), rank=rank, world_size=RANKS)
a = torch.ones(1 << 20).cuda()
d.all_reduce(a)
assert float(a.cpu().sum()) == RANKS << 20
d.destroy_process_group()
if child == 0:
    os._exit(0)
assert child < 0 or os.waitpid(child, 0)[1] == 0
"""

SCRIPTS = {"torch": TORCH, "cupy": CUPY, "numba": NUMBA, "jax": JAX, "vllm": VLLM, "nccl": NCCL}
MODULES = {"nccl": "torch"}
"""The module that must be installed, if it has another name."""
REAL_CARD_ONLY = {
    "cupy": "it has NVIDIA's runtime linked in",
    "jax": "its kernels need cuBLAS and NVIDIA's runtime",
    "vllm": "its kernels need cuBLAS and NVIDIA's runtime",
}
"""Why a framework cannot run on a simulated card."""


def script_of(name: str, *, is_real: bool, ranks: int) -> str:
    """What the interpreter is given. It ends with `ok`."""
    return f"REAL, RANKS = {is_real}, {ranks}\n{SCRIPTS[name]}\nprint('ok')\n"
