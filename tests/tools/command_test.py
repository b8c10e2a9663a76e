#!/usr/bin/env python3
"""Runs the command `tilewright` on good and bad input and checks exit codes, messages, JSON and files.

usage: command_test.py PROGRAM WORK_FOLDER, from the repository root
"""

import json
import os
import shutil
import struct
import subprocess
import sys

PROGRAM, WORK = sys.argv[1], sys.argv[2]
GPT = "examples/graphs/gpt_step.tw"
OK, FAILURES, USAGE, BAD_INPUT = 0, 1, 2, 3
problems = []
checks = 0

DOUBLE = """graph @double[N](%x: f32[N,3]) -> (f32[N,3]) {
  %y = add %x, %x : f32[N,3]
  return %y
}
"""

CLASSES = """graph @classes[N](%x: f32[N,5], %target: i32[2,N], %table: f32[3,5], %rows: i64[N]) -> (f32[]) {
  %0 = slice %target {start=[0,0], limit=[1,N], stride=[1,1]} : i32[1,N]
  %1 = reshape %0 {shape=[N]} : i32[N]
  %2 = embedding %table, %rows : f32[N,5]
  %3 = add %x, %2 : f32[N,5]
  %loss, %lse = cross_entropy %3, %1 : f32[], f32[N]
  return %loss
}
"""

REFUSED = """graph @refused(%x: i32[3]) -> (i32[3]) {
  %0 = constant {value=false} : bool[]
  assert %0 {message="never"}
  return %x
}
"""


def expect(holds, what):
    global checks
    checks += 1
    if not holds:
        problems.append(what)
        print("FAILED", what)


def run(*words, code=OK, says="", environment=None, stdin=None):
    """Runs the command; a failure must say one thing on standard error and nothing like a crash."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("TILEWRIGHT_")}
    env["TILEWRIGHT_CACHE"] = "off"
    env.update(environment or {})
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, env=env, input=stdin, timeout=300)
    title = " ".join(words)
    expect(done.returncode == code, f"{title}: exit code {done.returncode}, expected {code}: {done.stderr[-300:]}")
    if code != OK:
        expect(done.stderr.strip() or done.stdout.strip(), f"{title}: no message")
    expect(says in done.stdout + done.stderr, f"{title}: does not say '{says}': {(done.stdout + done.stderr)[-300:]}")
    return done.stdout


def run_json(*words, code=OK, **more):
    out = run(*words, "--json", code=code, **more)
    try:
        found = json.loads(out.rstrip("\n").split("\n")[-1])
    except ValueError as error:
        expect(False, f"{' '.join(words)}: last line is no JSON: {error}")
        return {}
    expect(isinstance(found, dict), f"{' '.join(words)}: last line is no object")
    return found


def path(name, content=None):
    full = os.path.join(WORK, name)
    if content is not None:
        with open(full, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
    return full


def npy(descr, shape, data, version=1, order="False"):
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"
    lead = 10 if version == 1 else 12
    header += " " * (63 - (lead + len(header)) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


def check_information():
    version = run_json("version")
    expect({"version", "api", "build_id"} <= version.keys(), f"version: {version}")
    options = {row["name"]: row for row in run_json("env", environment={"TILEWRIGHT_THREADS": "3"})["options"]}
    expect(options["threads"]["value"] == "3", f"env: threads is {options['threads']}")
    expect(options["threads"]["origin"] == "env", f"env: origin {options['threads']['origin']}")
    expect(options["target"]["origin"] == "default", f"env: origin {options['target']['origin']}")
    expect(len(run_json("targets")["targets"]) >= 4, "targets: fewer than four")
    expect(run_json("doctor")["checks"], "doctor: no checks")
    op = run_json("op", "layer_norm")
    expect(op["name"] == "layer_norm" and len(op["results"]) == 3, f"op: {op}")
    for word in ("run", "explain", "dump", "verify", "env", "targets", "version", "doctor", "op"):
        run(word, "--help", says="--json")


def check_run():
    graph = path("double.tw", DOUBLE)
    values = [1.5, -2.0, 0.0, float("inf"), 3.0, 1e-3]
    packed = struct.pack("<6f", *values)
    want = struct.pack("<6f", *[2 * value for value in values])
    for version in (1, 2, 3):
        source = path(f"x{version}.npy", npy("<f4", "(2, 3)", packed, version))
        out = os.path.join(WORK, f"out{version}")
        result = run_json("run", graph, "--input", f"x={source}", "--output-dir", out)
        output = result["outputs"][0]
        expect(output["shape"] == [2, 3] and output["dtype"] == "f32", f"run: {output}")
        expect(result["symbols"] == {"N": 2}, f"run: symbols {result['symbols']}")
        with open(output["file"], "rb") as file:
            expect(file.read().endswith(want), f"run: output of version {version} differs")
    columns = struct.pack("<6f", *[values[3 * row + column] for column in range(3) for row in range(2)])
    source = path("columns.npy", npy("<f4", "(2, 3)", columns, order="True"))
    run("run", graph, "--input", f"x={source}", "--output-dir", path("columns"))
    with open(os.path.join(WORK, "columns", os.path.basename(output["file"])), "rb") as file:
        expect(file.read().endswith(want), "run: column-major input differs")

    first = run_json("run", graph, "--random", "7", "--symbol", "N=5", "--repeat", "3")
    again = run_json("run", graph, "--random", "7", "--symbol", "N=5", "--mode", "eager")
    other = run_json("run", graph, "--random", "8", "--symbol", "N=5")
    hashes = [each["outputs"][0]["hash"] for each in (first, again, other)]
    expect(hashes[0] == hashes[1] != hashes[2], f"run: hashes {hashes}")
    expect(first["outputs"][0]["shape"] == [5, 3], "run: --symbol is not followed")
    expect(first["report"]["launches"]["kernel"] == 1, "run: not compiled")
    expect(again["report"]["launches"]["reference"] == 1, "run: --mode eager compiles")
    run("run", graph, "--random", "1", "--symbol", "N=0")
    run("run", "-", "--random", "1", stdin=DOUBLE)
    run("run", graph, "--random", "1", "--compare", says="agrees")
    run("run", GPT, "--random", "1", "--graph", "gpt_step", says="loss")


def check_explain_and_dump():
    report = run_json("explain", GPT)
    expect(report["kernels"] and all(each["description"] for each in report["kernels"]), "explain: no descriptions")
    expect(any(len(each["nodes"]) > 1 for each in report["kernels"]), "explain: nothing is fused")
    expect(all(each["sentence"] for each in report["fallbacks"]), "explain: a fallback without a sentence")
    run("explain", GPT, says="fuses")
    run("explain", GPT, "--target", "x86-64-v2", says="launches")
    graph = path("double.tw", DOUBLE)
    words = {"graph": "graph @double", "kernels": "", "tile": "", "llvm": "define", "asm": "ret", "expanded": "@double"}
    for stage, word in words.items():
        text = run_json("dump", graph, "--stage", stage).get("text", "")
        expect(word in text and text.strip(), f"dump {stage}: {text[:100]}")
    run("dump", graph, "--stage", "gradient", says="graph @")


def check_misuse():
    graph = path("double.tw", DOUBLE)
    run(code=USAGE)
    run("frobnicate", code=USAGE, says="expected one of: run, explain")
    run("op", "sofmax", code=USAGE, says="did you mean softmax?")
    run("run", graph, "--random", "1", "--symbol", "M=9", code=USAGE, says="no symbol M, expected one of: N")
    run("run", graph, "--random", "1", "--symbol", "N=9", "--symbol", "N=8", code=USAGE, says="N is given twice")
    run("run", graph, "--input", "x=a.npy", "--input", "x=b.npy", code=USAGE, says="x is given twice")
    run("dump", graph, "--gradient", "--stage", "gradient", code=USAGE, says="twice")
    run("explain", graph, environment={"TILEWRIGHT_DUMP": "kernels,foo"}, code=FAILURES, says="no stage 'foo', expected one of: graph, kernels")
    run("explain", graph, environment={"TILEWRIGHT_DUMP": "after:foo"}, code=FAILURES, says="after:foo")
    run("explain", graph, environment={"TILEWRIGHT_SKIP": "nosuchpass"}, code=FAILURES, says="simplify")
    run("explain", graph, environment={"TILEWRIGHT_SKIP": "expand_composites"}, code=FAILURES, says="no optional pass")
    run("explain", graph, "--target", "null", "-o", "fallback=error", code=FAILURES, says="does not run here")
    run("explain", graph, "--target", "null", "-o", "fallback=warn", says="does not run here")
    run("explain", graph, "--target", "null", says="1 nodes are not compiled")
    run("explain", graph, "-o", "mode=async", says="no effect yet")
    run("run", code=USAGE)
    run("run", graph, "--mode", "fast", "--random", "1", code=USAGE, says="fast")
    run("run", graph, "--random", "many", code=USAGE)
    run("run", graph, "--random", "1", "--repeat", "0", code=USAGE)
    run("run", graph, "--random", "1", "--symbol", "N", code=USAGE, says="--symbol")
    run("run", graph, "--random", "1", "--symbol", "N=x", code=USAGE, says="N=x")
    run("run", graph, "--input", "x", code=USAGE, says="--input")
    run("verify", code=USAGE, says="--all")
    run("verify", "--op", "nosuch", code=USAGE, says="nosuch")
    run("verify", "--op", "layernorm", code=USAGE, says="did you mean layer_norm?")
    run("verify", "--op", "add", "--dtype", "f33", code=USAGE, says="f33")
    run("verify", "--all", graph, code=USAGE, says="files")
    run("run", path("missing.tw"), "--random", "1", code=BAD_INPUT, says="cannot read")
    run("run", WORK, "--random", "1", code=BAD_INPUT, says="folder")
    for name, text in (("empty", ""), ("cut", DOUBLE[:60]), ("bytes", b"\x00\xff\x80"), ("op", DOUBLE.replace("add", "sum3"))):
        run("run", path(name + ".tw", text), "--random", "1", code=BAD_INPUT, says=name + ".tw")
    run("explain", GPT, "--graph", "nosuch", code=BAD_INPUT, says="nosuch")
    run("run", graph, code=BAD_INPUT, says="--random")
    run("run", graph, "--random", "1", "--option", "nosuch=1", code=FAILURES, says="nosuch")
    run("run", graph, "--random", "1", "--option", "threads=many", code=FAILURES, says="THREADS")
    run("run", graph, "--random", "1", "--target", "z80", code=FAILURES, says="z80")
    run("dump", graph, "--stage", "nosuch", code=FAILURES, says="graph, kernels, tile, llvm, asm, after:<pass>")
    run("env", code=FAILURES, says="TILEWRIGHT_THREADS", environment={"TILEWRIGHT_THREADS": "many"})
    expect(run_json("run", path("missing.tw"), code=BAD_INPUT).get("exit_code") == BAD_INPUT, "error JSON")

    data = struct.pack("<6f", *range(6))
    good = npy("<f4", "(2, 3)", data)
    bad = {
        "magic": b"NUMPY" + good,
        "short": good[:8],
        "header": good[:20],
        "data": good[:-1],
        "more": good + b"x",
        "dtype": npy("<f8", "(2, 3)", data * 2),
        "big_endian": npy(">f4", "(2, 3)", data),
        "negative": npy("<f4", "(-2, 3)", data),
        "huge": npy("<f4", "(4611686018427387904, 3)", data),
        "overflow": npy("<f4", "(99999999999999999999, 3)", data),
        "shape": npy("<f4", "2, 3", data),
        "words": npy("<f4", "(two, 3)", data),
        "version": npy("<f4", "(2, 3)", data)[:6] + b"\x09" + good[7:],
    }
    for name, content in bad.items():
        run("run", graph, "--input", f"x={path(name + '.npy', content)}", code=BAD_INPUT, says=name)
    run("run", graph, "--input", f"x={path('missing.npy')}", code=BAD_INPUT, says="cannot read")
    run("run", graph, "--input", f"z={path('good.npy', good)}", code=BAD_INPUT, says="no input z")
    wrong = path("wrong.npy", npy("<f4", "(3, 2)", data))
    run("run", graph, "--input", f"x={wrong}", code=FAILURES, says="3")
    rank = path("rank.npy", npy("<f4", "(6,)", data))
    run("run", graph, "--input", f"x={rank}", code=FAILURES, says="rank")


def check_verify():
    result = run_json("verify", "--op", "add", "--dtype", "f32")
    expect({"cases", "failures", "skipped", "ops_compiled", "ops_fallback"} <= result.keys(), f"verify: {result.keys()}")
    expect(result["refused"] == {}, f"verify: refused {result}")
    expect(result["cases"] > 0 and result["failures"] == 0 and result["ops_compiled"] == 1, f"verify: {result}")
    graph = path("double.tw", DOUBLE)
    triple = path("triple.tw", DOUBLE.replace("double", "triple"))
    result = run_json("verify", graph, triple)
    expect(result["cases"] == 4 and result["failures"] == 0, f"verify of files: {result}")
    run("verify", "--op", "add", "--list", says="add")
    # Classes and rows are drawn within their bounds, also behind ops that move them, so that values are compared.
    classes = path("classes.tw", CLASSES)
    result = run_json("verify", classes)
    expect(result["refused"] == {} and result["cases"] == 2 and result["compared"], f"verify of classes: {result}")
    run("run", classes, "--random", "1", "--symbol", "N=50", "--compare", says="agrees")
    # Nothing is proven where every run is refused.
    refused = path("refused.tw", REFUSED)
    result = run_json("verify", refused, code=FAILURES, says="nothing was compared")
    expect(not result["compared"] and len(result["refused"]) == 1, f"verify of refused runs: {result}")


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    for check in (check_information, check_run, check_explain_and_dump, check_misuse, check_verify):
        check()
    print(f"{checks} checks, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
