# `make help` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help deps run check test test-debug test-release test-sqlcipher test-sqlcipher4 test-model test-grdb lint format docs bench profile fuzz lifecycle outline-fuzz crash faults torture sqllogic model sanitize clean

# As Scripts/install-dependencies looks for it.
SWIFT ?= $(shell command -v swift || echo /opt/swift/usr/bin/swift)

# Tests have scratch paths of their own, since the flags differ from those of a plain build and would rebuild it. SwiftPM
# locks a scratch path, and make test builds side by side.
STRICT_FLAGS := --explicit-target-dependency-import-check error -Xswiftc -warnings-as-errors
DEBUG_TEST_FLAGS := --scratch-path .build/tests-debug $(STRICT_FLAGS)
RELEASE_TEST_FLAGS := -c release -Xswiftc -enable-testing --scratch-path .build/tests $(STRICT_FLAGS)
FORMATTED := Package.swift Sources Tests Benchmarks/Package.swift Benchmarks/Sources Fuzzing/Package.swift \
	Fuzzing/Sources/OutlineFuzz Integrations/GRDB/Package.swift Integrations/GRDB/Sources Integrations/GRDB/Tests

# Of `make sqllogic`: a script, or a folder of them.
SCRIPTS = $(or $(MIDSTREAM_SQLLOGIC),$(addsuffix /sqllogictest,$(MIDSTREAM_SHARED)))

# Tests wait much: two builds and runs of them at a time keep two cores busy. Each prints what it has to say when it ends, where make
# can have it so (since GNU make 4.0).
SIDE_BY_SIDE := --no-print-directory --keep-going --jobs=2 \
	$(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

# Of `make fuzz`, `make lifecycle`, `make outline-fuzz` and `make torture`.
SECONDS = $(or $(MIDSTREAM_FUZZ_SECONDS),3600)
SEED = $(MIDSTREAM_FUZZ_SEED)

help: ## Show this list.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo 'Environment of the oracle tests (make test, make fuzz):'
	@echo '  MIDSTREAM_FUZZ_STATEMENTS  statements in a random run'
	@echo '  MIDSTREAM_FUZZ_SEED        replays the run that printed this seed'
	@echo '  MIDSTREAM_FUZZ_SECONDS     runs for this long instead'
	@echo 'Environment of the lifecycle tests (make test, make lifecycle):'
	@echo '  MIDSTREAM_LIFECYCLE_COUNT    random lives of files'
	@echo '  MIDSTREAM_LIFECYCLE_SEED     replays the run that printed this seed, with MIDSTREAM_LIFECYCLE_LIFE from that one on'
	@echo '  MIDSTREAM_LIFECYCLE_SECONDS  runs for this long instead'
	@echo 'Environment of the crash tests (make test, make crash):'
	@echo '  MIDSTREAM_CRASH            only these scenarios and manners: drop,keep,powerLoss'
	@echo '  MIDSTREAM_CRASH_SEED       replays the run that printed this seed'
	@echo '  MIDSTREAM_CRASH_FULL       1 tries every point, not a few of them'
	@echo '  MIDSTREAM_CRASH_ENCRYPTED  1 encrypts the files of all of them, where the library is SQLCipher'
	@echo 'Environment of the fault sweeps (make test, make faults):'
	@echo '  MIDSTREAM_FAULTS           only these scenarios and kinds: drop,keep,read,full,memory'
	@echo '  MIDSTREAM_FAULTS_AT        only the operation with this number'
	@echo '  MIDSTREAM_FAULTS_FULL      1 fails every operation, not a few of them'
	@echo 'Environment of the sqllogictest runner (make test, make sqllogic):'
	@echo '  MIDSTREAM_SHARED           the folder that has the folder sqllogictest, of which make test runs samples'
	@echo '  MIDSTREAM_SQLLOGIC         runs this script, or all of this folder, in full instead'
	@echo '  MIDSTREAM_SQLLOGIC_FULL    1 runs in full what make test runs samples of'
	@echo '  MIDSTREAM_SQLLOGIC_MODES   only modes that have one of these texts: frozen at 50 %,stepping'
	@echo '  MIDSTREAM_SQLLOGIC_SEED    chooses other samples'
	@echo 'Environment of make test:'
	@echo '  MIDSTREAM_TEST_FOLDER      where tests make their files; in memory if not said, and with SQLCipher 4 in /tmp'
	@echo '  MIDSTREAM_GRDB             a checkout of GRDB, for the tests of Integrations/GRDB; its folder is called GRDB.swift'
	@echo '  MIDSTREAM_REQUIRE_SQLCIPHER  1 fails where SQLCipher cannot be had'
	@echo '  MIDSTREAM_SQLCIPHER4_FULL  1 runs all tests with SQLCipher 4, not only those of keys, files, crashes and random cases'
	@echo 'SWIFT=path chooses a toolchain.'

deps:
	@Scripts/install-dependencies

run: ## Build the release of the midstream command and run its demonstration.
	@Scripts/install-dependencies --package-index
	$(SWIFT) build -c release --product midstream
	.build/release/midstream demo

test: lint ## Lint, then run all tests: in debug, in release, and in debug with SQLCipher 3 and 4. Warnings are errors.
	@Scripts/tell-failures $(MAKE) $(SIDE_BY_SIDE) test-debug test-release test-sqlcipher test-sqlcipher4 test-model test-grdb

check: lint ## Lint, build in debug, and run all tests but sweeps and random cases: some three minutes after the build.
	$(SWIFT) build --build-tests $(DEBUG_TEST_FLAGS)
	@Scripts/run-tests --quick $(SWIFT) $(DEBUG_TEST_FLAGS)

test-debug: deps ## The parts of make test.
	$(SWIFT) build --build-tests $(DEBUG_TEST_FLAGS)
	Scripts/build-docs $(SWIFT) .build/tests-debug/debug >/dev/null
	@Scripts/check-examples $(SWIFT) .build/tests-debug/debug
	@Scripts/run-tests $(SWIFT) $(DEBUG_TEST_FLAGS)

test-release: deps
	$(SWIFT) build --build-tests $(RELEASE_TEST_FLAGS)
	@Scripts/run-tests $(SWIFT) $(RELEASE_TEST_FLAGS)

test-sqlcipher: deps
	@Scripts/test-sqlcipher system $(SWIFT) $(STRICT_FLAGS)

test-sqlcipher4: deps
	@MIDSTREAM_TEST_FOLDER=$${MIDSTREAM_TEST_FOLDER:-/tmp} Scripts/test-sqlcipher 4 $(SWIFT) $(STRICT_FLAGS)

test-model:
	@Scripts/check-model --quick

test-grdb: deps ## Test Integrations/GRDB with the checkout of GRDB that MIDSTREAM_GRDB names.
	@if [ -n "$${MIDSTREAM_GRDB:-}" ]; then $(SWIFT) test --package-path Integrations/GRDB; \
	else echo 'Integrations/GRDB is left out: MIDSTREAM_GRDB names no checkout of GRDB.swift'; fi

lint: deps ## Check the format, the layers and the text of tracked files.
	Scripts/check-layers
	Scripts/check-folders
	Scripts/check-references
	Scripts/check-size
	$(SWIFT) format lint --strict --parallel --recursive $(FORMATTED)

format: deps ## Format the Swift files in place.
	$(SWIFT) format --in-place --parallel --recursive $(FORMATTED)

docs: deps ## Build the documentation of the public modules into .build/docs.
	Scripts/build-docs $(SWIFT)

bench: deps ## Run the benchmarks, about five minutes, or: make bench BENCH="--rows 100000 --only migration"
	$(SWIFT) run -c release --package-path Benchmarks midstream-bench $(BENCH)

profile: deps ## Profile operations while their table moves, with perf, or: make profile NAMES="'full scan' 'count by index'"
	$(SWIFT) build -c release --package-path Benchmarks --product midstream-bench
	@Scripts/profile $(or $(NAMES),'point select by key' 'full scan' 'steps of 10 ms')

fuzz: deps ## Compare random statements with native SQLite for an hour, or: make fuzz SECONDS=60 SEED=1
	$(SWIFT) build --build-tests $(RELEASE_TEST_FLAGS)
	@# A filter that matches nothing would pass.
	@$(SWIFT) test list --skip-build $(RELEASE_TEST_FLAGS) | grep -c OracleFuzz >/dev/null \
		|| { echo 'make fuzz: there is no test named OracleFuzz' >&2; exit 1; }
	MIDSTREAM_FUZZ_SECONDS=$(SECONDS) $(if $(SEED),MIDSTREAM_FUZZ_SEED=$(SEED)) \
		$(SWIFT) test --skip-build $(RELEASE_TEST_FLAGS) --filter OracleFuzz

lifecycle: deps ## Live random lives of files, with all that may happen to them, for an hour, or: make lifecycle SECONDS=60 SEED=1
	$(SWIFT) build --build-tests $(RELEASE_TEST_FLAGS)
	@$(SWIFT) test list --skip-build $(RELEASE_TEST_FLAGS) | grep -c LifecycleFuzz >/dev/null \
		|| { echo 'make lifecycle: there is no test named LifecycleFuzz' >&2; exit 1; }
	MIDSTREAM_LIFECYCLE_SECONDS=$(SECONDS) $(if $(SEED),MIDSTREAM_LIFECYCLE_SEED=$(SEED)) \
		$(SWIFT) test --skip-build $(RELEASE_TEST_FLAGS) --filter LifecycleFuzz

outline-fuzz: deps ## Fuzz the outlines of statements with libFuzzer for an hour, or: make outline-fuzz SECONDS=60 SEED=1
	@Scripts/fuzz-outline $(SWIFT) $(SECONDS) $(if $(SEED),-seed=$(SEED))

crash: deps ## Kill processes at every write of a migration's life, and look at what each leaves behind.
	$(SWIFT) build --build-tests $(RELEASE_TEST_FLAGS)
	MIDSTREAM_CRASH_FULL=1 $(SWIFT) test --skip-build $(RELEASE_TEST_FLAGS) --filter KillTests

faults: deps ## Have every operation on files fail in turn, and allocations of memory, and look at what comes of each.
	$(SWIFT) build --build-tests $(RELEASE_TEST_FLAGS)
	MIDSTREAM_FAULTS_FULL=1 $(SWIFT) test --skip-build $(RELEASE_TEST_FLAGS) --filter FaultSweepTests

torture: deps ## Have processes step, write, read and be killed for an hour, or: make torture SECONDS=60 SEED=1
	$(SWIFT) build -c release $(STRICT_FLAGS) --product MidstreamTorture
	.build/release/MidstreamTorture --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

sqllogic: deps ## Run sqllogictest scripts in full, while their tables move: make sqllogic SCRIPTS=path
	@test -n '$(SCRIPTS)' || { echo 'make sqllogic: name scripts, SCRIPTS=path' >&2; exit 1; }
	@test -e '$(SCRIPTS)' || { echo 'make sqllogic: there is no $(SCRIPTS)' >&2; exit 1; }
	$(SWIFT) build --build-tests $(RELEASE_TEST_FLAGS)
	MIDSTREAM_SQLLOGIC='$(abspath $(SCRIPTS))' \
		$(SWIFT) test --skip-build --no-parallel $(RELEASE_TEST_FLAGS) --filter SQLLogicTests

model: ## Check the model of the protocol, and that it finds what it should, with spin: a quarter of an hour.
	@Scripts/install-dependencies --spin
	Scripts/check-model

sanitize: deps ## Run the tests under the thread sanitizer, then under the address sanitizer.
	Scripts/test-sanitized thread $(SWIFT) $(STRICT_FLAGS)
	Scripts/test-sanitized address $(SWIFT) $(STRICT_FLAGS)

clean: ## Remove everything that was built.
	rm -rf .build Benchmarks/.build Fuzzing/.build
