#!/usr/bin/env python3
"""Reads every #include and enforces the layering, the homes of outside libraries, and the size budget of files."""

import os
import re
import subprocess
import sys

# A folder, and the folders of ours that it may include besides itself. The longest matching prefix counts.
ARROWS = {
    "base": [],
    "ir": ["base"],
    "cache": ["base"],
    "targets": ["base"],
    "codegen": ["ir", "base"],
    "codegen/tile": ["ir", "base"],
    "codegen/emit": ["codegen/tile", "ir", "base"],
    "runtime": ["codegen", "targets", "cache", "ir", "base"],
    "capi": ["runtime", "ir", "base"],
    "capi/include": [],
    "frontends": ["capi/include"],
    "examples": ["capi/include"],
    "tools": ["capi", "runtime", "codegen", "targets", "cache", "ir", "base"],
    "tools/tilewright": ["capi/include"],
    "bench": ["tools", "capi", "runtime", "codegen", "targets", "cache", "ir", "base"],
    "tests": ["tools", "capi", "runtime", "codegen", "targets", "cache", "ir", "base", "examples"],
}

# What may not be included although the arrows allow the folder it is in: (from, what, why).
FORBIDDEN = [
    ("codegen/emit", "ir/reference", "the reference kernels are the oracle of the emitter and share nothing with it"),
    ("ir/reference", "ir/fold", "the folder uses the evaluator, not the other way round"),
]

# Outside headers and the only places that may include them.
HOMES = [
    (r"^llvm(-c)?/", ["codegen/emit", "targets/", "tests/", "bench/"]),
    (r"^(spdlog|fmt)/", ["base/log.cpp"]),
    (r"^xxhash\.h$", ["base/hash.cpp"]),
    (r"^ffi\.h$", ["runtime/"]),
    (r"^(CLI|nlohmann)/", ["tools/", "tests/", "bench/"]),
    (r"^gtest/", ["tests/"]),
    (r"^omp\.h$", []),
]

SOURCE = (".h", ".cpp", ".c", ".def", ".inc")
MAX_LINES = 800
BANNED_NAMES = re.compile(r"^\s*(?:class|struct)\s+(\w*(?:Manager|Helper|Util|Utils|Impl))\b", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def source_files():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    if listed.returncode == 0:
        names = listed.stdout.split("\n")
    else:  # an unpacked archive
        names = [os.path.join(folder, name)[2:] for folder, _, files in os.walk(".") for name in files]
    return sorted(n for n in names if n.endswith(SOURCE) and not n.startswith("build/") and os.path.exists(n))


def layer_of(path):
    parts = path.split("/")
    for length in range(len(parts) - 1, 0, -1):
        prefix = "/".join(parts[:length])
        if prefix in ARROWS:
            return prefix
    return None


def resolve(target):
    """The repository path that an include names, or None for one from outside."""
    if os.path.exists(target):
        return target
    public = "capi/include/" + target
    return public if os.path.exists(public) else None


def allowed(layer, target):
    # A folder may include what is inside it, unless that is a layer of its own.
    target_layer = layer_of(target)
    if target_layer == layer:
        return True
    for folder in ARROWS[layer]:
        if target_layer == folder or target.startswith(folder + "/"):
            return True
    # codegen's driver stands above the emitter; capi's sources implement the public header.
    return target_layer.startswith(layer + "/")


def check_include(path, layer, mark, target, complain):
    for pattern, homes in HOMES:
        if re.match(pattern, target) and not path.startswith(tuple(homes)):
            complain(f"includes {target}, which only {', '.join(homes) or 'nobody'} may")
    ours = resolve(target)
    if ours is None:
        if mark == '"' and not target.startswith("llvm"):
            complain(f"includes \"{target}\", which is not a path from the repository root")
        return
    if not allowed(layer, ours):
        complain(f"includes {target}: {layer} may include {', '.join(ARROWS[layer]) or 'nothing of ours'}")
    for source, forbidden, why in FORBIDDEN:
        if path.startswith(source) and ours.startswith(forbidden):
            complain(f"includes {target}: {why}")


def check_file(path, problems):
    with open(path, encoding="utf-8") as file:
        text = file.read()

    def complain(message):
        problems.append(f"{path}: {message}")

    layer = layer_of(path)
    if layer is None:
        complain("is in no folder of the layering")
        return
    for mark, target in INCLUDE.findall(text):
        check_include(path, layer, mark, target, complain)
    lines = text.count("\n")
    generated = "do not edit" in text[:300]
    if lines > MAX_LINES and not path.endswith(".def") and not generated:
        complain(f"has {lines} lines, more than {MAX_LINES}")
    if not text.startswith(("//", "/*")):
        complain("does not open with a sentence that says what it is for")
    if path.endswith(".h") and "#pragma once" not in text and "#ifndef" not in text:
        complain("has no include guard")
    for name in BANNED_NAMES.findall(text):
        complain(f"names a type {name}: say what it does instead")


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    problems = []
    files = source_files()
    for path in files:
        check_file(path, problems)
    for problem in problems:
        print(problem)
    print(f"check_includes: {len(files)} files, {len(problems)} problems")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
