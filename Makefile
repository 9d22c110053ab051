# `make help` lists what there is.

GO            ?= go
LINT_VERSION  := v2.15.0
TOOLS         := $(CURDIR)/.tools
VERSION       ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOFLAGS_BUILD := -trimpath -ldflags '-s -w'

export PATH := $(TOOLS):$(PATH)
# What was compiled in one directory need not be compiled anew in another.
export GOFLAGS := -trimpath $(GOFLAGS)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: build
build: bin/deployster ## build the static binary into bin/

# What is missing is said first: without certificates no module can be downloaded.
.PHONY: ready
ready:
	@command -v $(GO) >/dev/null || { echo "missing: go (install it as https://go.dev/doc/install says)" >&2; exit 1; }
	@GOPROXY=off $(GO) list -deps ./cmd/deployster >/dev/null 2>&1 || scripts/need --say ca-certificates

.PHONY: bin/deployster
bin/deployster: ready
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o $@ ./cmd/deployster

.PHONY: demo
demo: ## the main job on real containers: plan, apply, drift, destroy, look at the log
	@scripts/demo --check
	@$(MAKE) --no-print-directory build
	scripts/demo

.PHONY: docker
docker: ## start a Docker Engine where none answers, and leave it running
	scripts/with-docker --keep true

.PHONY: check
check: setup-check ## format, vet, lint, architecture and all pure packages, in two minutes
	scripts/with-huge-pages scripts/test check

.PHONY: test
test: setup-test ## check, then every package: what every change waits for and CI runs
	JINJA2=required scripts/with-huge-pages scripts/with-docker scripts/test test

.PHONY: test-all
test-all: setup-test ## everything, for hours: cluster, controllers, providers, kill loops, fuzzers, repetitions
	JINJA2=required scripts/with-huge-pages scripts/test-all $(STEPS)

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## lint only
	golangci-lint run

.PHONY: setup-check
setup-check:
	@scripts/need ca-certificates git gcc
	@$(MAKE) --no-print-directory $(TOOLS)/golangci-lint

.PHONY: setup-test
setup-test: setup-check
	@scripts/need openssh-client openssh-server gnupg python3 python3-jinja2 jq runc crun systemd docker-compose chromium postgresql
	@scripts/able

$(TOOLS)/golangci-lint: Makefile | ready
	@echo "compiling golangci-lint, once: with two processors that takes two to five minutes" >&2
	GOBIN=$(TOOLS) scripts/with-huge-pages $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@touch $@

.PHONY: bench
bench: build ## benchmarks, each against its yardstick in the same run
	scripts/with-docker scripts/bench

.PHONY: test-providers
test-providers: ready ## providers of Terraform, built from their Go modules, as types
	scripts/with-docker scripts/providers

.PHONY: test-kube
test-kube: ready ## Pods of a real cluster of Kubernetes, which is built from Go modules, once
	scripts/kube

.PHONY: test-controllers
test-controllers: ready ## real controllers of Flux and Argo in that cluster, built from Go modules, once
	scripts/controllers

.PHONY: fuzz
fuzz: ready ## every fuzzer for FUZZTIME (10s), beyond the inputs that the tests try
	scripts/fuzz

.PHONY: explore
explore: ready ## every property with fresh cases, ROUNDS (10) times as many as the tests draw
	scripts/explore

.PHONY: kill-loops
kill-loops: ready ## kill schedulers, controllers and servers KILLS (200) times in each loop
	$(GO) test -count=1 -timeout 0 -v ./internal/killloop -kills $(or $(KILLS),200) -seed $(or $(SEED),0)

.PHONY: gitea
gitea: ready ## propose to a real Gitea, which is built from its Go module, once
	scripts/gitea

.PHONY: image
image: ready ## build the image deployster:VERSION, without a registry
	CGO_ENABLED=0 GOOS=linux $(GO) build $(GOFLAGS_BUILD) -o bin/deployster ./cmd/deployster
	scripts/with-docker docker build --tag deployster:$(VERSION) --tag deployster:latest .

.PHONY: fmt
fmt: ## format the code
	files=$$(git ls-files -- '*.go') && gofmt -w $$files </dev/null

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .tools
