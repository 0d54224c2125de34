# make run    build, start a cluster and run the main job
# make test   build, and pass every test there is
# make bench  one line of JSON for each figure
# make lint   formatting, vet and layering

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

.PHONY: run build test test-unit test-e2e bench lint clean deps FORCE
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
# measure and wait, and two cores are soon full.
test: build deps
	$(GOTESTSUM) --format pkgname --jsonfile .cache/test.json -- -count=1 -timeout 20m $$($(GO) list ./... | grep -v /test/e2e)
	SETPOINT=$(abspath $(SETPOINT)) $(GOTESTSUM) --format testname --jsonfile .cache/e2e.json -- -count=1 -timeout 30m ./test/e2e/...

bench: build
	SETPOINT=$(abspath $(SETPOINT)) $(GO) run ./test/bench

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$unformatted" || { echo "not formatted:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) mod verify >/dev/null
	$(GO) test -count=1 ./test/layering

clean: bundle-clean
	rm -rf bin .cache
