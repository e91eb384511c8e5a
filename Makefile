# SPDX-License-Identifier: MIT
#
# The front door.  Everything is built by CMake from lib/; this file only knows
# which ways of building there are.

MAKEFLAGS += --no-print-directory

CROSS       ?=
PREFIX      ?= /usr/local
DESTDIR     ?=
JOBS        ?= $(shell nproc 2>/dev/null || echo 2)
CMAKE_FLAGS ?=
BENCH_FLAGS ?=
SKIP        ?=

BUILD   := build$(if $(CROSS),-$(CROSS))
RESULTS := build/results
HOST    := $(shell uname -m)

# Checked by "make check", in this order: what fails soonest comes first.
CHECKS := check-style check-unit check-asan check-arm64

configure = cmake -S lib -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX="$(PREFIX)" $(cross_flags) $(CMAKE_FLAGS)
ifneq ($(CROSS),)
cross_flags = -DCMAKE_TOOLCHAIN_FILE="$(CURDIR)/lib/cmake/$(CROSS).cmake" \
	-DRKCHAIN_SYSROOT="$$(scripts/arm64-sysroot)" -DRKCHAIN_SAMPLE=ON -DRKCHAIN_TEST_TIMEOUT=1500
endif

.PHONY: help
help:
	@echo 'make demo         set up, build, and run chains of matmuls (on the software NPU if there is no NPU)'
	@echo 'make check        set up, and run every check: style, unit tests, sanitizers, arm64 under qemu'
	@echo
	@echo 'make setup        install the packages that a build needs'
	@echo 'make build        build the library and the tool: build/rkchain'
	@echo 'make install      install them under PREFIX=$(PREFIX) (packagers: DESTDIR=)'
	@echo 'make bench        build and run the benchmarks (BENCH_FLAGS=)'
	@echo 'make clean        remove everything that was built'
	@echo
	@echo 'make check-style  make check-unit  make check-asan  make check-arm64    one of the checks alone'
	@echo 'make check-vm     the hardware model at register level, in an arm64 guest under qemu'
	@echo 'make vm           a shell in that guest'
	@echo 'make CROSS=aarch64-linux-gnu [build|check-unit]    build for arm64 on another machine'
	@echo
	@echo 'JOBS=$(JOBS)  CMAKE_FLAGS=$(CMAKE_FLAGS)  SKIP="checks that make check leaves out"'

# "make CROSS=..." says what to do already.
ifneq ($(CROSS),)
.DEFAULT_GOAL := build
endif

.PHONY: setup
setup:
	@scripts/setup build

.PHONY: build
build:
	@$(configure)
	@cmake --build $(BUILD) -j $(JOBS) --target rkchain rkchain_tool

.PHONY: demo
demo: setup
	@$(MAKE) build
	@$(BUILD)/rkchain demo

.PHONY: check
check:
	@scripts/setup check
	@rm -rf $(RESULTS)
	@status=0; $(MAKE) -k $(CHECKS) || status=1; \
		scripts/count-tests $(RESULTS) || status=1; exit $$status

.PHONY: check-style
check-style:
	@$(call suite,style,-,scripts/check-style)

.PHONY: check-unit
check-unit:
	@$(call suite,$(or $(CROSS),native),$(BUILD),$(MAKE) run-tests)

# The other compiler, so that both are seen.
.PHONY: check-asan
check-asan:
	@$(call suite,asan,build-asan,$(MAKE) run-tests CROSS= BUILD=build-asan CMAKE_FLAGS="$(asan_flags) $(CMAKE_FLAGS)")
asan_flags := -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
	-DRKCHAIN_SANITIZE=ON -DRKCHAIN_SAMPLE=ON -DRKCHAIN_TEST_TIMEOUT=1200

.PHONY: check-arm64
check-arm64:
ifeq ($(HOST),aarch64)
	@$(call suite,arm64,-,echo "ok 1 - arm64 # SKIP this machine is arm64; its own unit tests have shown it")
else
	@$(call suite,arm64,build-aarch64-linux-gnu,$(MAKE) run-tests CROSS=aarch64-linux-gnu)
endif

# $(call suite,name,build folder or -,command): run it, keep its log and count.
suite = $(if $(filter $(1) check-$(1),$(SKIP)),\
	scripts/run-suite $(1) - echo "ok 1 - $(1) # SKIP asked for by SKIP=",\
	scripts/run-suite $(1) $(2) $(3))

# The hardware model in a guest; KERNEL= chooses Debian's kernel.
.PHONY: vm
vm:
	@scripts/setup vm
	@tests/vm/run shell

.PHONY: check-vm
check-vm:
	@scripts/setup vm
	@$(call suite,vm,-,tests/vm/run test)

.PHONY: run-tests
run-tests:
	@$(configure) -DRKCHAIN_TESTS=ON
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

.PHONY: bench
bench:
	@scripts/setup check
	@$(configure) -DRKCHAIN_BENCH=ON
	@cmake --build $(BUILD) -j $(JOBS)
	@$(BUILD)/rkchain bench $(BENCH_FLAGS)
	@set -e; for bench in $$(find $(BUILD)/tests/bench -name '*_bench' -type f); do "$$bench"; done

.PHONY: install
install: build
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$(PREFIX)"

.PHONY: clean
clean:
	rm -rf build build-*
