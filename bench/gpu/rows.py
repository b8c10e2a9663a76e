#!/usr/bin/env python3
"""Copies, matrix products, attention, fused rows and elementwise chains on a device through the C API beside PyTorch: one JSON line a case.

Needs PyTorch with CUDA for memory, streams and the peers; prints SKIP where it is missing.
Usage: rows.py --library libtilewright.so [--target nvptx] [--repeat N] [word]
"""

import argparse
import ctypes
import json
import statistics
import sys

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("SKIP no PyTorch")
    sys.exit(0)

LARGE = 65536  # rows of 4096 bf16: 512 MiB
CODES = {torch.float32: (2, 32), torch.bfloat16: (4, 16), torch.float16: (2, 16)}
NAMES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class RunOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_int64), ("next", ctypes.c_void_p), ("symbol_names", ctypes.c_void_p), ("symbol_values", ctypes.c_void_p),
                ("symbol_count", ctypes.c_int64), ("donated", ctypes.c_void_p), ("donated_count", ctypes.c_int64), ("stream", ctypes.c_void_p),
                ("asked_place", ctypes.c_int32), ("reserved", ctypes.c_int32)]


class SessionInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_int64), ("next", ctypes.c_void_p), ("rest", ctypes.c_byte * 64)]


class Library:
    """The few functions that a run needs; failures are exceptions with the status' text."""

    def __init__(self, path, target):
        self.api = ctypes.CDLL(path)
        self.api.tw_status_text.restype = ctypes.c_char_p
        self.api.tw_text_data.restype = ctypes.c_char_p
        for name in ("tw_options_create", "tw_options_set", "tw_session_create", "tw_graph_parse", "tw_compile", "tw_run", "tw_executable_report",
                     "tw_session_synchronize"):
            getattr(self.api, name).restype = ctypes.c_void_p
        options = ctypes.c_void_p()
        self.check(self.api.tw_options_create(ctypes.byref(options)))
        self.check(self.api.tw_options_set(options, b"target", target.encode()))
        self.session = ctypes.c_void_p()
        info = SessionInfo(struct_size=16)
        self.check(self.api.tw_session_create(options, ctypes.byref(info), ctypes.byref(self.session)))

    def check(self, status):
        if status:
            raise RuntimeError(self.api.tw_status_text(ctypes.c_void_p(status)).decode())

    def compile(self, text):
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        data = text.encode()
        self.check(self.api.tw_graph_parse(data, ctypes.c_int64(len(data)), ctypes.byref(graph)))
        self.check(self.api.tw_compile(self.session, graph, None, ctypes.byref(executable)))
        return executable

    def report(self, executable):
        text = ctypes.c_void_p()
        self.check(self.api.tw_executable_report(executable, ctypes.byref(text)))
        return json.loads(self.api.tw_text_data(text))

    def bind(self, executable, inputs, outputs):
        """A closure that runs on the current stream with fixed tensors."""
        keep = [describe(t) for t in inputs + outputs]
        given = [ctypes.pointer(t) for t in keep]
        first = (ctypes.POINTER(DLTensor) * len(inputs))(*given[:len(inputs)])
        last = (ctypes.POINTER(DLTensor) * len(outputs))(*given[len(inputs):])
        options = RunOptions(struct_size=ctypes.sizeof(RunOptions))

        def run():
            options.stream = torch.cuda.current_stream().cuda_stream
            self.check(self.api.tw_run(executable, first, ctypes.c_int64(len(inputs)), last, None, ctypes.c_int64(len(outputs)), ctypes.byref(options)))

        run.keep = keep
        return run


def describe(tensor):
    code, bits = CODES[tensor.dtype]
    shape = (ctypes.c_int64 * max(tensor.dim(), 1))(*tensor.shape)
    made = DLTensor(tensor.data_ptr(), 2, 0, tensor.dim(), code, bits, 1, shape, None, 0)
    made.keep = (shape, tensor)
    return made


def seconds_of(run, repeat):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeat):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3 / repeat


def interleaved(runs, repeat, rounds=7):
    """Median seconds of each of `runs`, measured in turn."""
    for run in runs:
        run()
    torch.cuda.synchronize()
    times = [[] for _ in runs]
    for _ in range(rounds):
        for at, run in enumerate(runs):
            times[at].append(seconds_of(run, repeat))
    return [statistics.median(t) for t in times]


def cases(dtype, rows):
    n = NAMES[dtype]
    wide = f"{n}[{rows},4096]"
    x = torch.randn(rows, 4096, device="cuda", dtype=torch.float32).to(dtype)
    w, b = (torch.randn(4096, device="cuda").to(dtype) for _ in range(2))
    unary = f"graph @g(%x: {wide}) -> ({wide}) {{\n  %0 = OP : {wide}\n  return %0\n}}\n"
    yield "softmax", unary.replace("OP", "softmax %x {dim=1}"), [x], lambda: F.softmax(x, 1)
    yield "gelu", unary.replace("OP", "gelu %x {approximate=tanh}"), [x], lambda: F.gelu(x, approximate="tanh")
    norm = (f"graph @g(%x: {wide}, %w: {n}[4096], %b: {n}[4096]) -> ({wide}) {{\n"
            f"  %0, %1, %2 = layer_norm %x, %w, %b {{axes=[1]}} : {wide}, f32[{rows}], f32[{rows}]\n  return %0\n}}\n")
    yield "layer_norm", norm, [x, w, b], lambda: F.layer_norm(x, (4096,), w, b)
    chain = (f"graph @g(%x: {wide}, %w: {n}[4096], %b: {n}[4096]) -> ({wide}) {{\n"
             f"  %0 = broadcast_in_dim %w {{shape=[{rows},4096], dims=[1]}} : {wide}\n"
             f"  %1 = broadcast_in_dim %b {{shape=[{rows},4096], dims=[1]}} : {wide}\n"
             f"  %2 = multiply %x, %0 : {wide}\n  %3 = add %2, %1 : {wide}\n  %4 = gelu %3 {{approximate=tanh}} : {wide}\n  return %4\n}}\n")
    yield "gelu(xw+b)", chain, [x, w, b], lambda: F.gelu(x * w + b, approximate="tanh")


def products(dtype):
    n = NAMES[dtype]
    for m, k, c in ((1024, 1024, 1024), (4096, 4096, 4096), (16, 4096, 4096)):
        a, b = (torch.randn(*shape, device="cuda").to(dtype) for shape in ((m, k), (k, c)))
        text = (f"graph @g(%a: {n}[{m},{k}], %b: {n}[{k},{c}]) -> ({n}[{m},{c}]) {{\n"
                f"  %0 = dot_general %a, %b {{lhs_contract=[1], rhs_contract=[0]}} : {n}[{m},{c}]\n  return %0\n}}\n")
        yield f"matmul {n} {m}x{k}x{c}", text, [a, b], lambda a=a, b=b: a @ b, 2 * m * k * c
    for causal in (False, True):
        heads, length, depth = 16, 4096, 128
        q, k, v = (torch.randn(1, heads, length, depth, device="cuda").to(dtype) for _ in range(3))
        type_ = f"{n}[1,{heads},{length},{depth}]"
        text = (f"graph @g(%q: {type_}, %k: {type_}, %v: {type_}) -> ({type_}) {{\n"
                f"  %0, %1, %2 = attention %q, %k, %v {{causal={str(causal).lower()}}} : {type_}, f32[1,{heads},{length}], u64[2]\n  return %0\n}}\n")
        flops = 4 * heads * length * length * depth // (2 if causal else 1)
        yield (f"attention {n} h{heads} s{length} d{depth}{' causal' if causal else ''}", text, [q, k, v],
               lambda q=q, k=k, v=v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c), flops)


def run_products(library, arguments):
    for dtype in (torch.bfloat16, torch.float16):
        for name, text, inputs, peer, flops in products(dtype):
            if arguments.word and arguments.word not in name:
                continue
            try:
                executable = library.compile(text)
                expected = peer()
                out = torch.empty_like(expected)
                ours = library.bind(executable, inputs, [out])
                ours()
                torch.cuda.synchronize()
                error = (out.float() - expected.float()).norm().item() / expected.float().norm().item()
                own, other = interleaved([ours, peer], arguments.repeat)
                print(json.dumps({"suite": "gpu_products", "case": name, "ours": own, "peer": other, "peer_name": "torch", "ratio": round(other / own, 3),
                                  "tflops": round(flops / own / 1e12, 1), "relative_difference": error,
                                  "fallbacks": library.report(executable)["fallback_count"]}), flush=True)
            except Exception as error:  # one case must not hide the others
                print(json.dumps({"suite": "gpu_products", "case": name, "error": str(error)[:2000]}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--target", default="nvptx")
    parser.add_argument("--rows", type=int, default=LARGE)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("word", nargs="?", default="")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("SKIP no device")
        return
    library = Library(arguments.library, arguments.target)
    source = torch.empty(arguments.rows * 4096, dtype=torch.bfloat16, device="cuda").normal_()
    target = torch.empty_like(source)
    copy = interleaved([lambda: target.copy_(source)], arguments.repeat)[0]
    bandwidth = 2 * source.numel() * 2 / copy
    print(json.dumps({"suite": "gpu_rows", "case": "copy", "gb_per_second": round(bandwidth / 1e9, 1)}), flush=True)
    run_products(library, arguments)
    for dtype in (torch.bfloat16, torch.float32):
        rows = arguments.rows if dtype == torch.bfloat16 else arguments.rows // 2
        for name, text, inputs, peer in cases(dtype, rows):
            if arguments.word and arguments.word not in name:
                continue
            label = f"{name} {NAMES[dtype]} {rows}x4096"
            try:
                executable = library.compile(text)
                out = torch.empty_like(inputs[0])
                ours = library.bind(executable, inputs, [out])
                ours()
                expected = peer()
                torch.cuda.synchronize()
                error = (out.float() - expected.float()).abs().max().item()
                compiled = torch.compile(peer) if "triton" in sys.modules or torch.version.cuda else peer
                own, eager = interleaved([ours, peer], arguments.repeat)
                moved = 2 * inputs[0].numel() * inputs[0].element_size()
                report = library.report(executable)
                line = {"suite": "gpu_rows", "case": label, "ours": own, "peer": eager, "peer_name": "torch eager", "ratio": round(eager / own, 3),
                        "limit_pct": round(100 * moved / own / bandwidth, 1), "largest_difference": error,
                        "kernels": report["launches"]["kernel"], "fallbacks": report["fallback_count"]}
                print(json.dumps(line), flush=True)
                own, inductor = interleaved([ours, compiled], arguments.repeat)
                line.update(ours=own, peer=inductor, peer_name="torch inductor", ratio=round(inductor / own, 3))
                print(json.dumps(line), flush=True)
            except Exception as error:  # one case must not hide the others
                print(json.dumps({"suite": "gpu_rows", "case": label, "error": str(error)[:2000]}), flush=True)


if __name__ == "__main__":
    main()
