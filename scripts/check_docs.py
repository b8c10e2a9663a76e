#!/usr/bin/env python3
"""Checks the documents: links lead somewhere, every folder has a README, every environment variable is in the README's table."""

import os
import re
import subprocess
import sys

FOLDERS = ["base", "ir", "cache", "targets", "codegen", "runtime", "capi", "tools", "examples", "bench", "tests", "scripts", "cmake"]


def documents():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True)
    return [name for name in listed.stdout.splitlines() if os.path.exists(name)]


def anchors(path):
    """The anchors that headings get, as the usual renderers make them."""
    result = set()
    for heading in re.findall(r"^#+ +(.*)$", open(path, encoding="utf-8").read(), re.M):
        text = re.sub(r"[^\w\- ]", "", heading.lower())
        result.add(text.replace(" ", "-"))
    return result


def check_links(path, problems):
    text = re.sub(r"```.*?```", "", open(path, encoding="utf-8").read(), flags=re.S)
    text = re.sub(r"`[^`]*`", "", text)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        if not os.path.exists(file):
            problems.append(f"{path}: link to {target}, which does not exist")
        elif anchor and file.endswith(".md") and anchor not in anchors(file):
            problems.append(f"{path}: link to {target}, a heading that does not exist")


def check_environment(problems):
    if not os.path.exists("README.md"):
        return
    readme = open("README.md", encoding="utf-8").read()
    for name in re.findall(r"^FLAG\((\w+),", open("base/flags.def", encoding="utf-8").read(), re.M):
        variable = "TILEWRIGHT_" + name.upper()
        if variable not in readme:
            problems.append(f"README.md: does not mention {variable}")


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    problems = []
    names = documents()
    for name in names:
        check_links(name, problems)
    for folder in FOLDERS:
        has_sources = any(f.endswith((".cpp", ".h", ".py")) for _, _, files in os.walk(folder) for f in files)
        if has_sources and not os.path.exists(f"{folder}/README.md"):
            problems.append(f"{folder}: has no README.md")
    check_environment(problems)
    for problem in problems:
        print(problem)
    print(f"check_docs: {len(names)} documents, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
