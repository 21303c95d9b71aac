# Two commands do all the set-up: `make up` runs the platform, `make test` passes the tests.
# `make help` lists the rest. ARGS are handed on: make up ARGS="--port 7443".

VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
# That tests use, each with the package that has it where that is called otherwise.
PROGRAMS := strace redis-server libvirtd=libvirt-daemon virsh=libvirt-clients dnsmasq=dnsmasq-base iptables \
	qemu-system-x86_64=qemu-system-x86 qemu-img=qemu-utils mmdebstrap ip=iproute2 mke2fs=e2fsprogs
WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: bytecode help up demo test check format conformance ecosystem e2e crash soak bench facts reference recordings package clean

help: ## list these commands
	@grep -E '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## /\1\t/' | expand -t 12

up: $(VENV)/.run bytecode ## run the platform in the foreground; Ctrl-C ends it
	@$(BIN)/steelyard up $(ARGS)

demo: $(VENV)/.run bytecode ## run the platform with example claims and watch the clusters come up
	@$(BIN)/steelyard up --demo $(ARGS)

test: $(VENV)/.dev bytecode ## run the tests (builds kubectl from its Go module on first use)
	@KUBECTL="$$($(BIN)/python tools/upstream/build.py kubectl)" $(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

check: $(VENV)/.dev ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.dev ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

conformance: $(VENV)/.dev ## compare our API server with kube-apiserver, request by request (builds it first)
	@$(BIN)/python -m tests.conformance $(ARGS)

ecosystem: $(VENV)/.dev ## run other people's software: kr8s's tests, Cluster API's manager, clusterctl, kubeadm (builds them); ARGS=--full: KubeVirt's provider too
	@$(BIN)/python -m tests.ecosystem $(ARGS)

e2e: $(VENV)/.dev bytecode ## clusters of real virtual machines, as root and for half an hour or more; ARGS=--ha: three control planes; ARGS=--brief: to the end of cloud-init, minutes
	@$(BIN)/python -m tests.machines $(ARGS)

crash: $(VENV)/.dev ## kill -9 at every write of a cluster's life, restart, compare the end
	@$(BIN)/python -m tests.crash $(ARGS)

soak: $(VENV)/.dev bytecode ## kills, a full disk, damaged files, fuzzed requests, property tests at length, attacks
	@$(BIN)/python -m tests.soak $(ARGS)

bench: $(VENV)/.dev bytecode ## measure our API server beside kube-apiserver and etcd, then clusters
	@$(BIN)/python -m bench $(ARGS)

facts: $(VENV)/.dev ## make the tables of upstream kinds again from their Go modules
	$(BIN)/python tools/facts/make.py

reference: $(VENV)/.dev ## make the reference pages and the tables made ahead again from the models
	$(BIN)/python -m tools.reference
	$(BIN)/python tools/cli_reference.py

package: $(VENV)/.dev ## install the package into a fresh environment, run, upgrade and uninstall it
	@STEELYARD_TEST_PACKAGE=1 $(BIN)/pytest -q tests/e2e/test_package.py

recordings: $(VENV)/.dev bytecode ## record again what terminals of 80 and 140 columns show, for docs/recordings
	$(BIN)/python tools/recordings.py

# Where Python is told to write no bytecode, it would compile every module at each start: a third of a second.
bytecode: $(VENV)/.run
	@$(BIN)/python -m compileall -q src

clean: ## remove the virtual environment and caches; the platform's data stays
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis

$(VENV)/.run: pyproject.toml constraints.txt tools/setup.sh
	@sh tools/setup.sh $(VENV) .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt tools/setup.sh
	@sh tools/setup.sh $(VENV) '.[test,check,tools]' '$(PROGRAMS)' kvm
	@touch $(VENV)/.run $@
