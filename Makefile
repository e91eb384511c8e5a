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
FUZZ_SECONDS ?= 60
MINUTES     ?= 10
MUTATION_FLAGS ?=
SKIP        ?=

BUILD   := build$(if $(CROSS),-$(CROSS))
RESULTS := build/results
HOST    := $(shell uname -m)

# Checked by "make check", in this order: what fails soonest comes first.
CHECKS := check-style check-kernel check-unit check-asan check-fuzz check-arm64 check-vm

# Too slow for that; "make check-all" runs them as well.
SLOW_CHECKS := check-mutation check-sanitize

configure = cmake -S lib -B $(BUILD) -G Ninja -DCMAKE_INSTALL_PREFIX="$(PREFIX)" $(cross_flags) $(CMAKE_FLAGS)
ifneq ($(CROSS),)
cross_flags = -DCMAKE_TOOLCHAIN_FILE="$(CURDIR)/lib/cmake/$(CROSS).cmake" \
	-DRKCHAIN_SYSROOT="$$(scripts/arm64-sysroot)" -DRKCHAIN_SAMPLE=ON -DRKCHAIN_TEST_TIMEOUT=1500
endif

.PHONY: help
help:
	@echo 'make demo         set up, build, and run chains of matmuls (on the software NPU if there is no NPU)'
	@echo 'make check        set up, and run every check: style, kernel code, unit tests, sanitizers, fuzzers, arm64 under qemu, the guest'
	@echo 'make check-all    all of that, and the guest once more with a kernel that finds mistakes: an hour or more'
	@echo
	@echo 'make setup        install the packages that a build needs'
	@echo 'make build        build the library and the tool: build/rkchain'
	@echo 'make install      install them under PREFIX=$(PREFIX) (packagers: DESTDIR=)'
	@echo 'make kmod         build the kernel module below build/kmod and say where (KDIR=, ARCH=, CROSS_COMPILE=)'
	@echo 'make bench        build and run the benchmarks (BENCH_FLAGS=)'
	@echo 'make clean        remove everything that was built'
	@echo
	@echo 'make check-style  make check-kernel  make check-unit  make check-asan  make check-fuzz  make check-arm64'
	@echo '                  one of the checks alone'
	@echo 'make check-mutation  do the tests of kmod/core notice when one thing in it is wrong? (MUTATION_FLAGS=--help)'
	@echo 'make check-vm     an arm64 guest under qemu: the module over a stock driver and a model of the hardware'
	@echo '                  (KERNEL=6.1 or 6.12, STOCK_KO=a real rknpu.ko)'
	@echo 'make check-sanitize   that guest with KASAN, UBSAN, lockdep, kmemleak and gcov; its kernel is built, once'
	@echo 'make soak MINUTES=n   that guest for so long, with all that can go wrong at a time (SOAK_SEED=)'
	@echo 'make vm           a shell in that guest'
	@echo 'make CROSS=aarch64-linux-gnu [build|check-unit]    build for arm64 on another machine'
	@echo
	@echo 'JOBS=$(JOBS)  CMAKE_FLAGS=$(CMAKE_FLAGS)  FUZZ_SECONDS=$(FUZZ_SECONDS)  SKIP="checks that make check leaves out"'

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

.PHONY: check check-all
check check-all:
	@scripts/setup check
	@rm -rf $(RESULTS)
	@status=0; $(MAKE) -k $(CHECKS) $(if $(filter check-all,$@),$(SLOW_CHECKS)) || status=1; \
		scripts/count-tests $(RESULTS) || status=1; exit $$status

.PHONY: check-style
check-style:
	@$(call suite,style,-,scripts/check-style)

.PHONY: check-unit
check-unit:
	@$(call suite,$(or $(CROSS),native),$(BUILD),$(MAKE) run-tests)

# What can be said of the kernel code without running it; KERNEL= chooses Debian's
# kernel.
.PHONY: check-kernel
check-kernel:
	@$(call suite,kernel,-,scripts/check-kernel)

# The other compiler, so that both are seen.
.PHONY: check-asan
check-asan:
	@$(call suite,asan,build-asan,$(MAKE) run-tests CROSS= BUILD=build-asan CMAKE_FLAGS="$(asan_flags) $(CMAKE_FLAGS)")
asan_flags := -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
	-DRKCHAIN_SANITIZE=ON -DRKCHAIN_SAMPLE=ON -DRKCHAIN_TEST_TIMEOUT=1200

# The fuzzers of kmod/core, FUZZ_SECONDS of new inputs in all.
.PHONY: check-fuzz
check-fuzz:
	@$(call suite,fuzz,-,$(MAKE) run-fuzz CROSS= BUILD=build-fuzz CMAKE_FLAGS="$(fuzz_flags) $(CMAKE_FLAGS)")
fuzz_flags := -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 -DRKCHAIN_FUZZ=ON

# Changes one thing at a time in kmod/core, which its tests have to notice.
.PHONY: check-mutation
check-mutation:
	@scripts/setup check
	@$(call suite,mutation,-,tests/mutation/run $(MUTATION_FLAGS))

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

# In a guest: the hardware model, the stand-in for the stock driver or STOCK_KO=, the
# module over it, and the library on all of its back ends.  KERNEL= chooses Debian's
# kernel, VM_PARTS= what of tests/vm/check.
.PHONY: vm
vm:
	@scripts/setup vm
	@tests/vm/check shell

.PHONY: check-vm
check-vm:
	@scripts/setup vm
	@$(call suite,vm,-,tests/vm/check $(VM_PARTS))

# The same guest with a kernel made to find mistakes, and which lines of the module
# all that has executed.  SANITIZE_PARTS= chooses of tests/vm/check-sanitize.
.PHONY: check-sanitize
check-sanitize:
	@scripts/setup check
	@scripts/setup sanitize
	@$(call suite,sanitize,-,tests/vm/check-sanitize $(SANITIZE_PARTS))

# Clients of all kinds in the guest, and hardware and driver that misbehave, for MINUTES.
.PHONY: soak
soak:
	@scripts/setup vm
	@SOAK_MINUTES=$(MINUTES) $(call suite,soak,-,tests/vm/check soak)

# Against KDIR=; without it, against the running kernel's headers, else the guest's.
.PHONY: kmod
kmod:
	@scripts/build-kmod build/kmod "$(KDIR)" $(kernel_flags)
# The environment's reach the kernel's make by themselves.
kernel_flags = $(foreach v,ARCH CROSS_COMPILE CC LLVM,$(if $(filter command,$(firstword $(origin $(v)))),$(v)="$($(v))"))

.PHONY: run-tests
run-tests:
	@$(configure) -DRKCHAIN_TESTS=ON
	@cmake --build $(BUILD) -j $(JOBS)
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

# Some of them, built and not run.
.PHONY: build-tests
build-tests:
	@$(configure) -DRKCHAIN_TESTS=ON
	@cmake --build $(BUILD) -j $(JOBS) --target $(TARGETS)

.PHONY: run-fuzz
run-fuzz:
	@$(configure) -DRKCHAIN_TESTS=ON
	@cmake --build $(BUILD) -j $(JOBS) --target rkchain_fuzzers
	@tests/fuzz/run $(BUILD) $(FUZZ_SECONDS)

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
