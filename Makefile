# make run    build, start a cluster and run the main job
# make test   build, and pass every test there is
# make bench  one line of JSON for each figure
# make lint   formatting, vet and layering
# make race [RACE=packages]  the tests of what runs concurrently, by the race detector
# make nightly [SEEDS=10000] [FIRST=N]  every loop's convergence test, with so many seeds from N on
#
# make clients                     other people's clients: kubectl, Helm, Python, JavaScript, client-go, CSI sidecars
# make conformance-small           the part of Kubernetes' own tests that is cheap to build; test does both
# make controller-runtime          controller-runtime's own tests against `setpoint envtest`
# make conformance [FOCUS=regexp]  all of Kubernetes' conformance tests; writes docs/conformance.md

GO ?= go
export GOTOOLCHAIN ?= local
# One set of flags for all that is built, tested and vetted: with others, all of
# Kubernetes' libraries would be compiled once more.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false
SETPOINT := bin/setpoint
COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
LDFLAGS := -s -w -X github.com/setpoint-project/setpoint/internal/version.Commit=$(COMMIT)
GOTESTSUM := $(GO) run gotest.tools/gotestsum@v1.13.0

# The folder of the cluster that `make run` starts.
DATA ?= /var/lib/setpoint

.PHONY: run build test test-packages test-conformance-tool test-e2e nightly bench clients conformance conformance-small controller-runtime lint race clean deps FORCE
.DEFAULT_GOAL := build

include bundle.mk

build: $(SETPOINT)

$(SETPOINT): bundle FORCE
	$(GO) build -ldflags '$(LDFLAGS)' -o $@ ./cmd/setpoint

FORCE:

run: build
	@$(SETPOINT) --data-dir $(DATA) status >/dev/null 2>&1 || $(SETPOINT) --data-dir $(DATA) up --detach
	@$(SETPOINT) --data-dir $(DATA) demo

# What the end-to-end tests need of the machine: a static busybox for the
# images that they make, and ip to make network namespaces with.
deps:
	@missing=; command -v ip >/dev/null || missing="$$missing iproute2"; \
	test -x /bin/busybox || missing="$$missing busybox-static"; \
	test -z "$$missing" || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $$missing >/dev/null; }

# Packages first, then real clusters with real containers, one at a time: they
# measure and wait, and two cores are soon full. A part that fails does not keep
# the others from telling what they found.
TEST_PARTS := test-packages test-conformance-tool test-e2e clients conformance-small
test: build deps
	@failed=; for part in $(TEST_PARTS); do $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

test-packages: build
	$(GOTESTSUM) --format pkgname --jsonfile .cache/test.json -- -count=1 -timeout 40m $$($(GO) list ./... | grep -v -e /test/e2e -e /test/clients)

test-conformance-tool:
	$(GO) -C test/conformance test -count=1 ./run ./controller-runtime

test-e2e: build deps
	SETPOINT=$(abspath $(SETPOINT)) $(GOTESTSUM) --format testname --jsonfile .cache/e2e.json -- -count=1 -timeout 60m ./test/e2e/...

# Ten thousand seeds of every loop that has a convergence test, by as many
# processes as there are processors; others each night. A failure names its
# seed: go test -run TestX ./internal/controllers/x -seed N.
SEEDS ?= 10000
FIRST ?= $(shell echo $$(($$(date +%s) / 86400 * 10000)))
nightly:
	@echo "seeds $(FIRST) and $(SEEDS) more; FIRST=$(FIRST) plays them again"
	SETPOINT_SEEDS=$(SEEDS) SETPOINT_FIRST_SEED=$(FIRST) SETPOINT_PROCESSES=$$(nproc) $(GOTESTSUM) --format pkgname -- -count=1 -p 1 -timeout 0 \
		$$(grep -rl --include='*_test.go' 'controllertest\.Run(' internal | xargs -n 1 dirname | sort -u | sed 's,^,./,')

bench: build
	SETPOINT=$(abspath $(SETPOINT)) $(GO) run ./test/bench

# What nobody here wrote. Both are part of `make test`. The clients need the
# module proxy, npm, and Debian's python3-kubernetes, else a test says that it
# skips; what is built of the suite stays in .cache/conformance/small.
clients: build deps
	@/usr/bin/python3 -c 'import kubernetes' 2>/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-kubernetes >/dev/null 2>&1 || true
	SETPOINT=$(abspath $(SETPOINT)) $(GOTESTSUM) --format testname --jsonfile .cache/clients.json -- -count=1 -timeout 60m -p 1 -parallel 12 ./test/clients ./test/clients/csi

conformance-small: build deps
	$(GO) -C test/conformance run ./run -small -setpoint $(abspath $(SETPOINT)) -cache $(abspath .cache/conformance/small) -pause $(abspath $(BUNDLE_DIR)/pause)

# These are no part of it: they compile too much. The second needs root and
# Debian's archive, and the better part of an hour to build.
controller-runtime: build
	@mkdir -p .cache/conformance
	$(GO) -C test/conformance run ./controller-runtime -setpoint $(abspath $(SETPOINT)) -cache $(abspath .cache/conformance)

FOCUS ?=
conformance: build deps
	$(GO) -C test/conformance run ./run -setpoint $(abspath $(SETPOINT)) -cache $(abspath .cache/conformance) -pause $(abspath $(BUNDLE_DIR)/pause) -out $(abspath docs/conformance) -focus '$(FOCUS)'

# The race detector needs a C compiler, and everything compiled once more: in a
# cache of its own.
RACE ?= ./loop/... ./internal/apiserver/... ./internal/client/... ./internal/kubelet/... ./internal/scheduler/... ./internal/controllers/...
race:
	CGO_ENABLED=1 GOCACHE=$(abspath .cache/race) $(GO) test -race -count=1 -p 1 -timeout 60m $(RACE)

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) -C test/conformance vet ./...
	$(GO) mod verify >/dev/null
	$(GO) test -count=1 ./test/layering

clean: bundle-clean
	rm -rf bin .cache
