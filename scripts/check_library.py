#!/usr/bin/env python3
"""Checks libtilewright.so as a host sees it: only tw_* exported, few libraries needed, never unloaded, no constructors of ours.

Usage: check_library.py <libtilewright.so> <folder of static archives> [sanitizer]
"""

import glob
import os
import re
import subprocess
import sys

# Everything else is linked statically or opened at run time.
MAY_NEED = ("libstdc++.so", "libgcc_s.so", "libm.so", "libc.so", "libz.so", "libzstd.so", "ld-linux", "libpthread.so", "libdl.so")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check_exports(library, problems):
    names = [line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()]
    # A name may carry a version, as in tw_version@@TILEWRIGHT_1.
    foreign = [name for name in names if not name.startswith("tw_")]
    problems += [f"exports {name}" for name in foreign[:20]]
    if glob.glob("capi/*.cpp") and not names:
        problems.append("exports nothing")
    return len(names)


def check_dynamic(library, sanitizer, problems):
    dynamic = output("readelf", "-dW", library)
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not sanitizer and not needed.startswith(MAY_NEED):
            problems.append(f"needs {needed}")
    if "NODELETE" not in dynamic:
        problems.append("is not marked nodelete")
    if "TEXTREL" in dynamic:
        problems.append("has text relocations")
    if not re.search(r"Build ID: [0-9a-f]{40}", output("readelf", "-nW", library)):
        problems.append("has no build id: nothing would be cached")
    if not sanitizer and "(RUNPATH)" in dynamic:
        problems.append("has a run path")


def check_constructors(archives, problems):
    """LLVM's own only register options; ours would run in every process that merely loads the library."""
    for archive in sorted(glob.glob(os.path.join(archives, "libtw_*.a"))):
        member = ""
        for line in output("readelf", "-SW", archive).splitlines():
            if line.startswith("File: "):
                member = line[6:]
            elif ".init_array" in line and ".rela" not in line:
                problems.append(f"static constructor in {member}")


def main():
    library, archives = sys.argv[1:3]
    sanitizer = sys.argv[3] if len(sys.argv) > 3 else None
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    problems = []
    exported = check_exports(library, problems)
    check_dynamic(library, sanitizer, problems)
    if not sanitizer:
        check_constructors(archives, problems)
    for problem in problems:
        print(f"{os.path.basename(library)}: {problem}")
    size = os.path.getsize(library) / 1e6
    print(f"check_library: {exported} symbols exported, {size:.1f} MB, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
