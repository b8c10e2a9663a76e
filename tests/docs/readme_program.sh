#!/usr/bin/env bash
# Compiles and runs the C program of the README as the README says.
set -eu
build=$1
work=$2
mkdir -p "$work"
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' README.md > "$work/program.c"
cc "$work/program.c" -std=c11 -Wall -Wextra -Werror -Icapi/include "-L$build/lib" -ltilewright "-Wl,-rpath,$build/lib" -o "$work/program"
got=$("$work/program")
wanted='-0.154269 -0.154269 1.39979 1.39979 3.49919 3.49919 '
[ "$got" = "${wanted% }" ] || [ "$got" = "$wanted" ] || { echo "found '$got', expected '$wanted'"; exit 1; }
echo ok
