#!/usr/bin/env bash
# train_gpt in small: compiled and eager agree step by step, threads and the cache change no bit, a resumed run goes on.
set -eu
program=$1
work=$2
rm -rf "$work"
mkdir -p "$work"
export TILEWRIGHT_CACHE_DIR=$work/cache
small="--layers 2 --heads 2 --width 32 --context 32 --batch 4 --sample 0 --warmup 5"

run() { # name, options
  local name=$1
  shift
  "$program" $small --output-dir "$work/$name" "$@" > "$work/$name.log" || { cat "$work/$name.log"; exit 1; }
}
losses() { cut -d, -f1,2,3 "$work/$1/loss.csv"; }

run compiled --steps 50 --dropout 0.1 --threads 2
run again --steps 50 --dropout 0.1 --threads 1
run eager --steps 50 --dropout 0.1 --mode eager
cmp <(losses compiled) <(losses again) || { echo 'threads or the cache changed the result'; exit 1; }
grep -q 'graph image found' "$work/again.log" || { echo 'the second start did not find the image'; cat "$work/again.log"; exit 1; }
grep -q '(100% hits)' "$work/again.log" || { echo 'the second start compiled something'; cat "$work/again.log"; exit 1; }
grep -q ' 0 fallbacks' "$work/compiled.log" || { echo 'the step has fallbacks'; cat "$work/compiled.log"; exit 1; }

# Declared tolerance of the curves: 1e-4 relative at each of the 50 steps.
paste -d, <(losses compiled) <(losses eager) | awk -F, 'NR > 1 {
  d = $2 - $5; if (d < 0) d = -d
  if (d > worst) worst = d
  if (!(d <= 1e-4 * $5)) { print "step " $1 ": compiled loss " $2 ", eager " $5; bad = 1 }
} END { printf "largest difference of the curves %.2e over %d steps\n", worst, NR - 1; exit bad || NR != 51 }'

# A few steps on a simulated device agree with the processor's, and two runs there give the same bits.
tiny="--steps 3 --dropout 0 --layers 1 --width 16 --context 8 --batch 2"
run tiny $tiny
run tiny_device $tiny --target simt:strict
run tiny_again $tiny --target simt
cmp <(losses tiny_device) <(losses tiny_again) || { echo 'two runs on the device differ'; exit 1; }
paste -d, <(losses tiny) <(losses tiny_device) | awk -F, 'NR > 1 { d = $2 - $5; if (d < 0) d = -d
  if (!(d <= 1e-5 * $2)) { print "step " $1 ": " $2 ", on the device " $5; exit 1 } }'

run half --steps 25 --dropout 0.1
"$program" $small --output-dir "$work/half" --steps 25 --dropout 0.1 --resume yes > "$work/resumed.log"
tail -n 1 "$work/compiled/loss.csv" | awk -F, '{ exit !($2 < 5) }' || { echo 'the loss did not fall'; exit 1; }
"$program" --width 30 --heads 4 2> "$work/bad.log" && { echo 'a bad width was accepted'; exit 1; }
"$program" $small --text /nonexistent 2>> "$work/bad.log" && { echo 'a missing text was accepted'; exit 1; }
"$program" $small --output-dir "$work/half" --resume yes --layers 1 2>> "$work/bad.log" && { echo 'a foreign checkpoint was accepted'; exit 1; }
echo ok
