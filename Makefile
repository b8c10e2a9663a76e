# The two commands are `make demo` and `make test`; both install what is missing, build, and do nothing twice.
PRESET ?= release
BUILD := build/$(PRESET)
# A pip-installed cmake or ninja earlier in PATH may be older than Debian's.
CMAKE := $(firstword $(wildcard /usr/bin/cmake) cmake)
CTEST := $(firstword $(wildcard /usr/bin/ctest) ctest)
JOBS ?= $(shell nproc)

.PHONY: help setup configure build test demo bench format check-format clean

help:
	@echo 'make demo                 build, then train the example model into build/demo'
	@echo 'make test [PRESET=asan]   build and run every test (presets: release debug asan ubsan tsan)'
	@echo 'make build [PRESET=...]   programs in build/PRESET/bin, libtilewright.so in build/PRESET/lib'
	@echo 'make bench SUITE=name     run one benchmark suite; its JSON lines go to build/bench/name.jsonl'
	@echo 'make setup                install the Debian packages that are missing'
	@echo 'make format               run clang-format over the sources'
	@echo 'make clean                remove build/'

setup:
	@scripts/setup

configure: setup
	@test -f $(BUILD)/build.ninja || $(CMAKE) --preset $(PRESET)

build: configure
	@$(CMAKE) --build --preset $(PRESET) --parallel $(JOBS)

test: build
	@cd $(BUILD) && $(CTEST) --output-on-failure --no-tests=error --parallel $(JOBS) $(CTEST_FLAGS)

demo: build
	@scripts/demo $(BUILD) build/demo

bench: build
	@scripts/bench $(BUILD) $(SUITE)

format:
	@scripts/format

check-format:
	@scripts/format --check

clean:
	@rm -rf build
