# NodeWright: build, check and try out. `make help` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# One set of build settings everywhere: a build without -trimpath shares no
# cache with one that has it.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

# Nodes of the demo and of the benchmark, packages per NodeWright of the
# benchmark.
NODES ?= 20
PACKAGES ?= 3
# A manifest of your own for the demo.
MANIFEST ?=
# KEEP=1 leaves the demo running and prints its KUBECONFIG.
KEEP ?=
# How long each target is fuzzed.
FUZZTIME ?= 30s
# A part of the names of those to fuzz.
FUZZ ?=
# Schedules of the longer simulation, their steps, and the seed of the first one;
# without it the clock decides.
SCHEDULES ?= 100000
STEPS ?= 300
SEED ?=
# Architecture and tag of images, and a static busybox for those of packages.
ARCH ?= $(shell go env GOARCH)
TAG ?= dev
BUSYBOX ?= $(or $(shell command -v busybox),/bin/busybox)
# A regular expression of the end-to-end tests to run.
RUN ?=
# Packages under test, and further arguments of go test.
PKG ?= ./...
TESTARGS ?=

##@ General

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*##"; printf "Usage: make TARGET [NAME=value]\n" } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*##/ { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: ## Build the commands into bin.
	go build -o bin/ ./cmd/...

.PHONY: images
images: ## Build images of manager, agent and sample packages without a registry.
	@go run ./hack/images -out bin/images -arch $(ARCH) -tag $(TAG) -busybox $(BUSYBOX) \
		$(foreach p,sysctl journal-vacuum hosts-block,config/samples/packages/$(p)/nodewright-package=nodewright/$(p):1.0.0)

.PHONY: sbom
sbom: ## List what manager and agent are built from, in bin/sbom.
	@hack/sbom/sbom.sh bin/sbom

.PHONY: reproducible
reproducible: ## Build manager and agent in two directories, and compare.
	@hack/reproducible.sh

##@ Checks

.PHONY: assets
assets: ## Get the binaries of the local control plane into the cache.
	@go run ./hack/assets

.PHONY: generate
generate: ## Generate CRDs, roles, deep copies, apply configurations, reference.
	@hack/generate.sh

.PHONY: verify
verify: ## Check generated files, go.mod and formatting; changes nothing.
	@hack/verify.sh

.PHONY: lint
lint: ## Run the linters.
	@lint=$$(hack/tool.sh golangci-lint); $$lint run --allow-serial-runners $(PKG)

.PHONY: test
test: ## Run all tests. PKG=./apis/... runs some, TESTARGS=-short less.
	@assets=$$(go run ./hack/assets); sum=$$(hack/tool.sh gotestsum); \
	KUBEBUILDER_ASSETS=$$assets PATH=$$assets:$$PATH \
		$$sum --format pkgname --format-hide-empty-pkg -- -timeout 30m $(TESTARGS) $(PKG)

.PHONY: e2e
e2e: ## Run real packages on two real nodes (Linux, root). RUN=TestReboot some.
	@hack/e2e.sh $(RUN)

.PHONY: sim
sim: ## Simulate longer than the tests do. SCHEDULES=100000 STEPS=300 SEED=1.
	@seed=$(or $(SEED),$$(date +%s)); echo "make sim SCHEDULES=$(SCHEDULES) STEPS=$(STEPS) SEED=$$seed"; \
	go test ./test/sim -v -count 1 -timeout 0 -schedules $(SCHEDULES) -steps $(STEPS) -first $$seed

.PHONY: fuzz
fuzz: ## Fuzz every target in turn. FUZZTIME=30s each, FUZZ=Review some.
	@hack/fuzz.sh $(FUZZTIME) $(FUZZ)

##@ Try out

.PHONY: demo
demo: ## Roll packages over simulated nodes. NODES=20 MANIFEST=file KEEP=1.
	@go run ./cmd/devcluster demo --nodes=$(NODES) $(if $(MANIFEST),--manifest=$(MANIFEST)) $(if $(filter-out 0,$(KEEP)),--keep)

.PHONY: bench
bench: ## Measure webhooks, planner and convergence. NODES=20 PACKAGES=3.
	@go test ./webhooks/... ./controllers/node/plan -run '^$$' -bench . -benchmem
	@go run ./test/bench/converge -nodes $(NODES) -packages $(PACKAGES)
