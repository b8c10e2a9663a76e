#!/usr/bin/env python3
"""Reports the size of the sources: lines by folder, the longest files and functions, and with --times the slowest compiles.

Usage: size.py [--base <commit>] [--times <build folder>]
"""

import argparse
import os
import re
import subprocess

FUNCTION_BUDGET = 50
FILE_BUDGET = 400


def git(*arguments):
    return subprocess.run(("git",) + arguments, check=True, capture_output=True, text=True).stdout


def files_of(commit):
    names = git("ls-tree", "-r", "--name-only", commit).splitlines() if commit else git("ls-files").splitlines()
    for name in names:
        if name.endswith((".h", ".cpp", ".c", ".def")) and (commit or os.path.exists(name)):
            yield name, git("show", f"{commit}:{name}") if commit else open(name, encoding="utf-8").read()


def lines_by_folder(files):
    folders = {}
    for name, text in files:
        folder = name.split("/")[0]
        count, lines = folders.get(folder, (0, 0))
        folders[folder] = (count + 1, lines + text.count("\n"))
    return folders


def functions(text):
    """(name, lines) of each function, judged by the indentation that clang-format gives: good enough for a budget."""
    start, indent, name = None, "", ""
    for number, line in enumerate(text.splitlines()):
        if start is None:
            match = re.match(r"^( {0,2})(?! |namespace|class|struct|enum|union|#|//|\}|extern)(.*[\w>)].*)\{$", line)
            if match and ("(" in line or re.match(r"^ {4,}", line)):
                start, indent = number, match.group(1)
                name = re.sub(r"\(.*", "", match.group(2)).split(" ")[-1]
        elif line == indent + "}" or line == indent + "};":
            yield name, number - start + 1
            start = None


def report_sizes(base):
    files = list(files_of(None))
    now, before = lines_by_folder(files), lines_by_folder(files_of(base)) if base else {}
    print(f"{'folder':12}{'files':>7}{'lines':>8}{'change':>9}" if base else f"{'folder':12}{'files':>7}{'lines':>8}")
    for folder in sorted(now):
        count, lines = now[folder]
        change = f"{lines - before.get(folder, (0, 0))[1]:+9}" if base else ""
        print(f"{folder:12}{count:7}{lines:8}{change}")
    long_files = sorted(((t.count("\n"), n) for n, t in files if not n.endswith(".def")), reverse=True)
    print(f"\nfiles of more than {FILE_BUDGET} lines")
    for lines, name in long_files:
        if lines > FILE_BUDGET:
            print(f"{lines:6} {name}")
    long_functions = [(lines, name, path) for path, text in files for name, lines in functions(text)]
    print(f"\nfunctions of more than {FUNCTION_BUDGET} lines")
    for lines, name, path in sorted(long_functions, reverse=True):
        if lines > FUNCTION_BUDGET:
            print(f"{lines:6} {path}: {name}")


def report_times(build):
    """Seconds of the last build of each output; ccache hits look fast."""
    seconds = {}
    with open(os.path.join(build, ".ninja_log"), encoding="utf-8") as log:
        for line in log:
            fields = line.split("\t")
            if len(fields) >= 4 and fields[0].isdigit():
                seconds[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    print(f"\nslowest of {len(seconds)} steps, {sum(seconds.values()):.0f} s together")
    for name in sorted(seconds, key=seconds.get, reverse=True)[:20]:
        print(f"{seconds[name]:7.1f} {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", help="commit to compare with")
    parser.add_argument("--times", help="build folder whose log is read")
    arguments = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    report_sizes(arguments.base)
    if arguments.times:
        report_times(arguments.times)


if __name__ == "__main__":
    main()
