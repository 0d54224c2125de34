# The container runtime that the setpoint binary carries.
#
#   make -f bundle.mk bundle        build what changed, and pack it
#   make -f bundle.mk bundle-clean  forget all of it
#
# What is built depends on keys, not on file times: a key file holds a hash of
# everything a program is made from (module versions, our sources, compiler,
# flags) and is only touched when that hash changes. A rerun with nothing to do
# costs a few hashes; editing the main module's go.mod rebuilds kubectl only if
# a module that kubectl links has changed.

BUNDLE_GO ?= go
BUNDLE_DIR := .cache/bundle
BUNDLE_PACKED := internal/containerd/bundle/packed
BUNDLE_NICE := nice -n 10
BUNDLE_MK := $(lastword $(MAKEFILE_LIST))

# The version kubectl tells, that of the k8s.io modules it is built from.
BUNDLE_KUBERNETES := 1.37.2

BUNDLE_LDFLAGS := -s -w
BUNDLE_CONTAINERD_TAGS := osusergo netgo static_build urfave_cli_no_docs no_btrfs no_zfs no_devmapper no_tracing no_rdt no_systemd
# Its version as upstream's builds say it, from the module it is built from.
BUNDLE_CONTAINERD_VERSION = -X github.com/containerd/containerd/v2/version.Version=$(patsubst v%,%,$(lastword $(shell grep 'containerd/containerd/v2 v' runtime/go.mod)))
BUNDLE_RUNC_TAGS := osusergo netgo seccomp urfave_cli_no_docs
BUNDLE_VERSION_PKG := k8s.io/component-base/version
BUNDLE_KUBECTL_LDFLAGS := $(BUNDLE_LDFLAGS) \
	-X $(BUNDLE_VERSION_PKG).gitVersion=v$(BUNDLE_KUBERNETES) \
	-X $(BUNDLE_VERSION_PKG).gitMajor=$(word 1,$(subst ., ,$(BUNDLE_KUBERNETES))) \
	-X $(BUNDLE_VERSION_PKG).gitMinor=$(word 2,$(subst ., ,$(BUNDLE_KUBERNETES))) \
	-X $(BUNDLE_VERSION_PKG).gitCommit= \
	-X $(BUNDLE_VERSION_PKG).gitTreeState=clean

BUNDLE_PAUSE_CFLAGS := -Os -static -nostdlib -ffreestanding -fno-stack-protector -fno-asynchronous-unwind-tables -Wall -Wextra -Werror -Wl,--build-id=none -Wl,-z,noseparate-code -s

BUNDLE_CNI := bridge host-local loopback portmap
BUNDLE_CNI_BIN := $(BUNDLE_CNI:%=$(BUNDLE_DIR)/cni/%)
BUNDLE_RUNTIME_BIN := $(BUNDLE_DIR)/bin/containerd $(BUNDLE_DIR)/bin/containerd-shim-runc-v2 $(BUNDLE_DIR)/bin/runc
BUNDLE_ALL := $(BUNDLE_RUNTIME_BIN) $(BUNDLE_CNI_BIN) $(BUNDLE_DIR)/kubectl $(BUNDLE_DIR)/setpoint-dns $(BUNDLE_DIR)/images.tar

.PHONY: bundle bundle-locked bundle-clean bundle-keys bundle-cgo

# Two makes at once take turns; the second finds the work done.
bundle:
	@mkdir -p $(BUNDLE_DIR)/bin $(BUNDLE_DIR)/cni $(BUNDLE_DIR)/key
	@flock $(BUNDLE_DIR)/lock $(MAKE) --no-print-directory -f $(BUNDLE_MK) bundle-locked

bundle-locked: $(BUNDLE_PACKED)/contents.json

bundle-clean:
	rm -rf $(BUNDLE_DIR) $(BUNDLE_PACKED)/bundle.tar.zst $(BUNDLE_PACKED)/contents.json

# $(call bundle-sources,FOLDERS): their Go files without the tests.
bundle-sources = $(filter-out %_test.go,$(wildcard $(addsuffix /*.go,$(1))))

# $(call bundle-key,NAME,COMMAND): a key file that follows COMMAND's output.
define bundle-key
$(BUNDLE_DIR)/key/$(1): bundle-keys
	@{ $(BUNDLE_GO) env GOVERSION GOARCH; $(2); } | sha256sum > $$@.new; \
	if cmp -s $$@.new $$@; then rm $$@.new; else mv $$@.new $$@; fi
endef

bundle-keys:

$(eval $(call bundle-key,runtime,cat runtime/go.mod runtime/go.sum; echo $(BUNDLE_LDFLAGS)))
$(eval $(call bundle-key,containerd,cat $(BUNDLE_DIR)/key/runtime runtime/containerd/*.go; echo $(BUNDLE_CONTAINERD_TAGS) version))
$(eval $(call bundle-key,shim,cat $(BUNDLE_DIR)/key/runtime; echo $(BUNDLE_CONTAINERD_TAGS) version))
$(eval $(call bundle-key,runc,cat $(BUNDLE_DIR)/key/runtime; echo $(BUNDLE_RUNC_TAGS)))
$(eval $(call bundle-key,kubectl,cat cmd/kubectl/*.go; echo '$(BUNDLE_KUBECTL_LDFLAGS)'; $(BUNDLE_GO) list -deps -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' ./cmd/kubectl | sort -u))
$(eval $(call bundle-key,dns,cat $$(call bundle-sources,cmd/dns internal/dns/server internal/dns/wire internal/dns/zone); $(BUNDLE_GO) list -deps -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' ./cmd/dns | sort -u))
$(eval $(call bundle-key,images,cat images/pause/pause.c $$(call bundle-sources,images/demo images/build)))
$(eval $(call bundle-key,pack,cat $$(call bundle-sources,internal/containerd/bundle/archive internal/containerd/bundle/pack)))

$(BUNDLE_DIR)/key/containerd $(BUNDLE_DIR)/key/shim $(BUNDLE_DIR)/key/runc: $(BUNDLE_DIR)/key/runtime

# Static and without cgo, but for runc: it enters namespaces in C before the Go
# runtime starts threads, and filters system calls with libseccomp.
$(BUNDLE_DIR)/bin/containerd: $(BUNDLE_DIR)/key/containerd
	cd runtime && CGO_ENABLED=0 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -tags '$(BUNDLE_CONTAINERD_TAGS)' -ldflags '$(BUNDLE_LDFLAGS) $(BUNDLE_CONTAINERD_VERSION)' -o ../$@ ./containerd
	@touch $@

$(BUNDLE_DIR)/bin/containerd-shim-runc-v2: $(BUNDLE_DIR)/key/shim
	cd runtime && CGO_ENABLED=0 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -tags '$(BUNDLE_CONTAINERD_TAGS) no_grpc' -ldflags '$(BUNDLE_LDFLAGS) $(BUNDLE_CONTAINERD_VERSION)' -o ../$@ github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2
	@touch $@

$(BUNDLE_DIR)/bin/runc: $(BUNDLE_DIR)/key/runc | bundle-cgo
	cd runtime && CGO_ENABLED=1 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -tags '$(BUNDLE_RUNC_TAGS)' -ldflags '$(BUNDLE_LDFLAGS) -linkmode external -extldflags -static' -o ../$@ github.com/opencontainers/runc
	@touch $@

$(BUNDLE_DIR)/cni/bridge $(BUNDLE_DIR)/cni/loopback: $(BUNDLE_DIR)/cni/%: $(BUNDLE_DIR)/key/runtime
	cd runtime && CGO_ENABLED=0 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -ldflags '$(BUNDLE_LDFLAGS)' -o ../$@ github.com/containernetworking/plugins/plugins/main/$*
	@touch $@

$(BUNDLE_DIR)/cni/host-local: $(BUNDLE_DIR)/key/runtime
	cd runtime && CGO_ENABLED=0 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -ldflags '$(BUNDLE_LDFLAGS)' -o ../$@ github.com/containernetworking/plugins/plugins/ipam/host-local
	@touch $@

$(BUNDLE_DIR)/cni/portmap: $(BUNDLE_DIR)/key/runtime
	cd runtime && CGO_ENABLED=0 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -ldflags '$(BUNDLE_LDFLAGS)' -o ../$@ github.com/containernetworking/plugins/plugins/meta/portmap
	@touch $@

$(BUNDLE_DIR)/kubectl: $(BUNDLE_DIR)/key/kubectl
	CGO_ENABLED=0 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -ldflags '$(BUNDLE_KUBECTL_LDFLAGS)' -o $@ ./cmd/kubectl
	@touch $@

$(BUNDLE_DIR)/setpoint-dns: $(BUNDLE_DIR)/key/dns
	CGO_ENABLED=0 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -ldflags '$(BUNDLE_LDFLAGS)' -o $@ ./cmd/dns
	@touch $@

$(BUNDLE_DIR)/pause: $(BUNDLE_DIR)/key/images | bundle-cgo
	$(or $(CC),cc) $(BUNDLE_PAUSE_CFLAGS) -o $@ images/pause/pause.c

$(BUNDLE_DIR)/demo: $(BUNDLE_DIR)/key/images
	CGO_ENABLED=0 $(BUNDLE_NICE) $(BUNDLE_GO) build -trimpath -ldflags '$(BUNDLE_LDFLAGS)' -o $@ ./images/demo
	@touch $@

$(BUNDLE_DIR)/images.tar: $(BUNDLE_DIR)/pause $(BUNDLE_DIR)/demo
	$(BUNDLE_GO) run ./images/build -pause $(BUNDLE_DIR)/pause -demo $(BUNDLE_DIR)/demo -o $@

$(BUNDLE_PACKED)/contents.json: $(BUNDLE_ALL) $(BUNDLE_DIR)/key/pack
	$(BUNDLE_NICE) $(BUNDLE_GO) run ./internal/containerd/bundle/pack -o $(BUNDLE_PACKED) \
		$(foreach f,$(BUNDLE_ALL),$(f:$(BUNDLE_DIR)/%=%)=$(f))

# What runc needs to build. Nothing is installed when it is there already.
bundle-cgo:
	@if ! printf '#include <seccomp.h>\nint main(void){return seccomp_api_get()==0;}' | $(or $(CC),cc) -x c - -static -o /dev/null -lseccomp 2>/dev/null; then \
		echo 'installing a C compiler and libseccomp-dev, which runc needs to build'; \
		apt-get update -qq >/dev/null && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev libseccomp-dev pkg-config >/dev/null || \
		{ echo 'cannot install them: install gcc, libc6-dev, libseccomp-dev and pkg-config by hand' >&2; exit 1; }; \
	fi
