"""The demo model's training step beside PyTorch eager, interleaved in one process; one JSON line a case.

usage: train_step.py <build folder>.  Needs PyTorch and NumPy (scripts/bench makes build/peers).
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


CODES = {"f": 2, "i": 0, "u": 1}


class Tensor:
    """A NumPy array seen through DLPack's C struct."""

    def __init__(self, array):
        self.array = np.ascontiguousarray(array).reshape(array.shape)
        self.shape = (ctypes.c_int64 * max(1, self.array.ndim))(*self.array.shape)
        dtype = self.array.dtype
        self.view = DLTensor(self.array.ctypes.data, 1, 0, self.array.ndim, CODES[dtype.kind], dtype.itemsize * 8, 1,
                             self.shape, None, 0)


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name in ("tw_options_create", "tw_options_set", "tw_session_create", "tw_graph_parse", "tw_compile", "tw_run"):
            getattr(self.c, name).restype = ctypes.c_void_p
        self.c.tw_status_text.restype = ctypes.c_char_p

    def check(self, status):
        if status:
            raise RuntimeError(self.c.tw_status_text(ctypes.c_void_p(status)).decode())

    def compile(self, text, mode, threads):
        options, session, graph, executable = (ctypes.c_void_p() for _ in range(4))
        self.check(self.c.tw_options_create(ctypes.byref(options)))
        for name, value in (("mode", mode), ("threads", str(threads))):
            self.check(self.c.tw_options_set(options, name.encode(), value.encode()))
        self.check(self.c.tw_session_create(options, None, ctypes.byref(session)))
        raw = text.encode()
        self.check(self.c.tw_graph_parse(raw, ctypes.c_int64(len(raw)), ctypes.byref(graph)))
        self.check(self.c.tw_compile(session, graph, None, ctypes.byref(executable)))
        return executable

    def run(self, executable, inputs, outputs):
        ins = (ctypes.POINTER(DLTensor) * len(inputs))(*[ctypes.pointer(t.view) for t in inputs])
        outs = (ctypes.POINTER(DLTensor) * len(outputs))(*[ctypes.pointer(t.view) for t in outputs])
        self.check(self.c.tw_run(executable, ins, ctypes.c_int64(len(inputs)), outs, None, ctypes.c_int64(len(outputs)), None))


class Gpt(torch.nn.Module):
    """The model of examples/train_gpt, as PyTorch users write it."""

    def __init__(self, layers, heads, width, context):
        super().__init__()
        self.heads = heads
        self.embedding = torch.nn.Embedding(256, width)
        self.positions = torch.nn.Parameter(0.02 * torch.randn(context, width))
        torch.nn.init.normal_(self.embedding.weight, std=0.02)
        self.blocks = torch.nn.ModuleList()
        for _ in range(layers):
            block = torch.nn.ModuleDict({
                "norm1": torch.nn.LayerNorm(width), "qkv": torch.nn.Linear(width, 3 * width),
                "projection": torch.nn.Linear(width, width), "norm2": torch.nn.LayerNorm(width),
                "up": torch.nn.Linear(width, 4 * width), "down": torch.nn.Linear(4 * width, width)})
            self.blocks.append(block)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, tokens, targets):
        batch, context = tokens.shape
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            q, k, v = block["qkv"](block["norm1"](x)).split(x.shape[2], dim=2)
            q, k, v = (t.view(batch, context, self.heads, -1).transpose(1, 2) for t in (q, k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["projection"](y.transpose(1, 2).reshape(batch, context, -1))
            x = x + block["down"](F.gelu(block["up"](block["norm2"](x))))
        logits = self.norm(x) @ self.embedding.weight.T
        return F.cross_entropy(logits.view(-1, 256), targets.reshape(-1))


def main():
    build = sys.argv[1]
    layers, heads, width, context, batch = 4, 4, 128, 128, 16
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.tw")
        subprocess.run([f"{build}/bin/train_gpt", "--write-graph", path, "--layers", str(layers), "--heads", str(heads),
                        "--width", str(width), "--context", str(context), "--batch", str(batch)], check=True)
        text = open(path).read()
    library = Library(f"{build}/lib/libtilewright.so")
    random = np.random.default_rng(0)

    # The inputs in the order of the graph: tokens, state, step, lr, then p, m, v of each parameter.
    header = text[text.index("(") + 1:text.index(") -> (")]
    tensors = []
    for part in header.split("%")[1:]:
        name, kind = part.strip().rstrip(",").split(": ")
        dtype, sizes = kind.split("[")
        sizes = [int(s) for s in sizes.rstrip("], ").split(",") if s]
        if name == "tokens":
            array = random.integers(0, 256, sizes).astype(np.int32)
        elif dtype == "u64":
            array = np.zeros(sizes, np.uint64)
        elif name in ("step", "lr"):
            array = np.array(1.0 if name == "step" else 1e-3, np.float32)
        elif name.endswith("_m") or name.endswith("_v"):
            array = np.zeros(sizes, np.float32)
        else:
            array = (np.ones(sizes) if "norm" in name and name.endswith("_w") else 0.02 * random.standard_normal(sizes)).astype(np.float32)
        tensors.append(Tensor(array))
    extra = [Tensor(np.zeros((), np.float32)), Tensor(np.zeros((), np.float32)), Tensor(np.zeros(2, np.uint64))]

    def ours(executable):
        library.run(executable, tensors, extra + tensors[4:])

    model = Gpt(layers, heads, width, context)
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.99))
    tokens = torch.from_numpy(tensors[0].array.astype(np.int64))

    def peer():
        loss = model(tokens[:, :-1], tokens[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    start = time.perf_counter()
    compiled = library.compile(text, "sync", threads)
    ours(compiled)
    first_step = time.perf_counter() - start
    eager = library.compile(text, "eager", threads)

    def timed(function):
        begin = time.perf_counter()
        function()
        return time.perf_counter() - begin

    times, peer_times = [], []
    for round_index in range(25):
        mine, theirs = timed(lambda: ours(compiled)), timed(peer)
        if round_index >= 3:
            times.append(mine)
            peer_times.append(theirs)
    eager_times = [timed(lambda: ours(eager)) for _ in range(2)]
    mine, theirs, slow = statistics.median(times), statistics.median(peer_times), min(eager_times)
    parameters = sum(p.numel() for p in model.parameters())
    flops = 6 * parameters * batch * context
    case = f"gpt {layers} layers width {width} context {context} batch {batch} f32 threads={threads}"
    for name, peer_time in (("PyTorch " + torch.__version__ + " eager " + torch.backends.cpu.get_cpu_capability(), theirs),
                            ("tilewright eager mode", slow)):
        print(json.dumps({"suite": "train_step", "case": case, "ours": mine, "peer": peer_time, "peer_name": name,
                          "ratio": peer_time / mine, "limit_pct": None, "gflops": flops / mine / 1e9,
                          "first_step_seconds": first_step, "precision": "strict"}))


main()
