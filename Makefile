# make run    installs what is missing, builds, gets SmolLM2, generates, audits
# make test   what CI runs (25 minutes on 2 cores, all included); the other targets: make help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := build
# The parts of a target run in their order, whatever -j says; ninja and ctest do several things at once.
.NOTPARALLEL:

# Default: a question for a model that converses, a beginning for one that goes on.
PROMPT ?=
MAX_TOKENS ?= 64
MODEL ?=
JOBS ?= $(shell nproc)

# Debian's tools before any shim of the same name; looked up when used, after setup has run.
CMAKE = $(firstword $(wildcard /usr/bin/cmake) cmake)
CTEST = $(firstword $(wildcard /usr/bin/ctest) ctest)
NINJA = $(firstword $(wildcard /usr/bin/ninja) ninja)
CLANG = $(firstword $(wildcard /usr/bin/clang++-14) clang++)
FORMAT = $(firstword $(wildcard /usr/bin/clang-format-14) clang-format)
TIDY = $(firstword $(wildcard /usr/bin/clang-tidy-14) clang-tidy)
# Warnings are errors under the gcc that the tree is kept clean for; a newer one may know new warnings.
WERROR ?= $(if $(filter 12,$(shell g++ -dumpversion)),ON,OFF)
configure = $(CMAKE) --preset $(1) -DCMAKE_MAKE_PROGRAM=$(NINJA) $(2) >build/configure.$(1).log || { cat build/configure.$(1).log; exit 1; }

sources = $(shell git ls-files 'src/*.h' 'src/*.cpp' 'tests/*.h' 'tests/*.cpp' 'bench/*.h' 'bench/*.cpp' 'fuzz/*.h' 'fuzz/*.cpp' 'examples/*.h' 'examples/*.cpp')

.PHONY: help setup configure build run test test-quick test-readers test-aarch64 test-all prove bench fuzz format lint clean

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | column -t -s "$$(printf '\t')"

setup:  ## install the Debian packages that are missing
	@scripts/setup

configure: setup
	@mkdir -p build
	@$(call configure,release,-DEADEM_WERROR=$(WERROR) -DEADEM_BENCH=OFF)

build: configure  ## build build/bin/eadem
	@$(NINJA) -C build -j $(JOBS) eadem

run: build  ## generate from a prompt (PROMPT=, MODEL=, MAX_TOKENS=), then audit the model
	@model="$(MODEL)"; [ -n "$$model" ] || model=$$(scripts/get-model); \
	prompt="$(PROMPT)"; case "$$prompt$$model" in \
	  builtin:poet) prompt="Shall I compare thee" ;; \
	  "$$model") prompt="Why is the sky blue?" ;; \
	esac; \
	build/bin/eadem generate "$$model" --prompt "$$prompt" --max-tokens $(MAX_TOKENS); \
	build/bin/eadem audit "$$model"

test: test-readers test-aarch64 test-quick  ## what CI runs; ctest's summary of the gcc build comes last

test-quick: configure
	@$(NINJA) -C build -j $(JOBS)
	@$(CTEST) --test-dir build -L quick -j $(JOBS) --output-on-failure --no-label-summary

test-readers: setup  ## io, text and the fuzzers' corpora under AddressSanitizer and UBSan
	@mkdir -p build
	@$(call configure,readers,-DCMAKE_CXX_COMPILER=$(CLANG))
	@$(NINJA) -C build/readers -j $(JOBS)
	@$(CTEST) --test-dir build/readers -j $(JOBS) --output-on-failure --no-label-summary

test-aarch64: setup  ## numerics and contraction, cross-built, under qemu
	@scripts/test-aarch64

test-all: test  ## everything: clang, every sanitizer on every test, the full sizes
	@$(call configure,clang,-DCMAKE_CXX_COMPILER=$(CLANG) -DEADEM_WERROR=ON)
	@for preset in asan tsan; do $(CMAKE) --preset $$preset -DCMAKE_CXX_COMPILER=$(CLANG) >/dev/null; done
	@for build in clang asan tsan; do \
	  $(NINJA) -C build/$$build -j $(JOBS); \
	  $(CTEST) --test-dir build/$$build -L quick -j $(JOBS) --output-on-failure --no-label-summary; \
	done
	@EADEM_RANDOM_PROGRAMS=10000 $(CTEST) --test-dir build -j $(JOBS) --output-on-failure --no-label-summary

prove: configure  ## every elementary function over every input, against MPFR
	@scripts/prove --threads $(JOBS)

bench: setup  ## Eadem and its peers, by turns
	@mkdir -p build
	@$(call configure,release,-DEADEM_BENCH=ON)
	@$(NINJA) -C build -j $(JOBS)
	@bench/peers/setup
	@bench/peers/run

fuzz: setup  ## each fuzzer for FUZZ_SECONDS (600)
	@scripts/fuzz

format:  ## clang-format every source file
	@scripts/setup lint
	@$(FORMAT) -i $(sources)

lint: configure  ## formatting and clang-tidy
	@scripts/setup lint
	@$(FORMAT) --dry-run -Werror $(sources)
	@$(TIDY) -p build --quiet $(filter src/%.cpp,$(sources))

clean:  ## delete build/
	@rm -rf build
