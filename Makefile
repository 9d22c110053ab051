# `make help` lists what there is.

GO            ?= go
LINT_VERSION  := v2.15.0
TOOLS         := $(CURDIR)/.tools
VERSION       ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
GOFLAGS_BUILD := -trimpath -ldflags '-s -w'

export PATH := $(TOOLS):$(PATH)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

.PHONY: build
build: bin/deployster ## build the static binary into bin/

.PHONY: bin/deployster
bin/deployster:
	CGO_ENABLED=0 $(GO) build $(GOFLAGS_BUILD) -o $@ ./cmd/deployster

.PHONY: demo
demo: build ## the main job on real containers: plan, apply, drift, destroy, look at the log
	scripts/demo

.PHONY: docker
docker: ## start a Docker Engine where none answers, and leave it running
	scripts/with-docker --keep true

.PHONY: test
test: setup-test ## everything: formatting, vet, lint, architecture, unit and container tests
	scripts/check
	JINJA2=required scripts/with-docker $(GO) test -race -count=1 -timeout 20m ./...

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## lint only
	golangci-lint run

.PHONY: setup-test
setup-test: $(TOOLS)/golangci-lint
	@scripts/need gcc openssh-client python3 python3-jinja2 jq runc crun

$(TOOLS)/golangci-lint: Makefile
	GOBIN=$(TOOLS) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@touch $@

.PHONY: bench
bench: build ## benchmarks, each against its yardstick in the same run
	scripts/with-docker scripts/bench

.PHONY: image
image: ## build the image deployster:VERSION, without a registry
	CGO_ENABLED=0 GOOS=linux $(GO) build $(GOFLAGS_BUILD) -o bin/deployster ./cmd/deployster
	scripts/with-docker docker build --tag deployster:$(VERSION) --tag deployster:latest .

.PHONY: fmt
fmt: ## format the code
	gofmt -w $$(git ls-files '*.go')

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .tools
