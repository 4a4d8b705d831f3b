# Everything a person does with this repository. `make` alone lists it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO       ?= go
BIN      := $(CURDIR)/bin
CACHE    := $(CURDIR)/.cache
TOOL     := $(GO) tool -modfile=tools/go.mod
# The Kubernetes release that a go.mod names, and this one's.
kube      = $(shell awk '$$1 == "k8s.io/kubernetes" {print $$2; exit}' $(1))
KUBE     := $(call kube,go.mod)
ifndef VERSION
VERSION  := $(shell build/version.sh)
endif
LINKED   := -s -w -X github.com/berth-dev/berth/internal/version.Version=$(VERSION)
LDFLAGS  := $(LINKED) -X k8s.io/component-base/version.gitVersion=$(KUBE)
# The Kubernetes releases that berth-scheduler is built from, the oldest first: the last is that of go.mod. modflags has the go.mod and
# the tag of a build, or nothing for the last. bin/berth-scheduler-k8s1.36 is one build.
SCHEDULERS := $(shell cat deploy/chart/berth/files/schedulers)
modflags  = $(if $(filter v$(1).%,$(KUBE)),,-modfile=test/conformance/versions/v$(1)/go.mod -tags=kube$(subst .,,$(1)))
COMMANDS := $(notdir $(wildcard cmd/*))
export CGO_ENABLED ?= 1

# Packages that link a server or the kubelet of k8s.io/kubernetes are compiled once, without the race detector; most are tests
# and gathered under test/. The two that wait longest for kubelets come first: meanwhile the others are linked and run.
# USED are packages under test/ that are light: what only tests use.
HEAVY  = $(filter-out $(LIGHT),$(shell $(GO) list ./test/e2e ./test/neighbours ./test/... ./cmd/... ./internal/...))
USED   = ./test/golden ./test/next ./test/protocol/... ./test/reference ./test/repo ./test/sysfstest ./test/warnings
LIGHT  = $(call once,LIGHT)
LIST_LIGHT = $(GO) list -f '{{.ImportPath}} {{join .Deps " "}}' ./... | \
             grep -v -e ' k8s.io/kubernetes/\(cmd\|pkg/kubelet\|pkg/controller\)/' -e '^[^ ]*/test/' | cut -d' ' -f1 && $(GO) list $(USED)
# Packages in which goroutines are started, by code or tests: make test has the race detector for these, make test-race for all.
# ALONE are their tests that run in one goroutine, and that the race detector slows down most, or whose allocations it changes.
# BOTH are tests that run with the race detector, shortened by -short, and again without it.
RACING = $(call once,RACING)
LIST_RACING = $(GO) list -f '{{.ImportPath}} {{.Dir}}' $(LIGHT) | while read name dir; do \
              ! grep -qsE '^\s*go (func|[A-Za-z_.]+)\(|\.Go\(|RunParallel|synctest|httptest' $$dir/*.go || echo $$name; done
ALONE  = TestAllSayTheSame|Test.*NoAlloc.*|TestMoves|TestWaking|TestProfile|TestUnused|TestHours|TestRememberingNUMA|$\
         TestFewestNUMANodes|TestCandidatesAreTheBest|TestForetold|TestDevicesForetold|TestTakesInAnyOrder|$\
         TestEveryFieldOfAJobCounts|TestALargeGangEvictsFew|TestAGangOfManyPods|TestASucceededPodThatIsGone|$\
         TestAReplacementThatWaits|TestAllAskersAgree
BOTH   = TestGangsAtRandom
LIST_WITH_ALONE = grep -rlE --include=*_test.go '^func ($(ALONE)|$(BOTH))\(' ./internal ./placement | xargs -n1 dirname | sort -u
once   = $(if $(HAVE_$(1)),,$(eval HAVE_$(1) := $$(shell $$(LIST_$(1)))))$(HAVE_$(1))
# What took how long goes here, one graph of actions for each run of go test.
TIMES  = $(CACHE)/times
TIMED  = $(GO) test -debug-actiongraph=$(TIMES)/$(1).json

say = @printf '\n\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help
help: ## Show this list.
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build every command into bin/.
	$(call say,building $(COMMANDS) into bin/ (the first time compiles Kubernetes: about 6 minutes on 2 cores))
	@mkdir -p $(BIN)
	@for c in $(COMMANDS); do echo "   bin/$$c"; build/compile.sh -ldflags '$(LDFLAGS)' -o $(BIN)/$$c ./cmd/$$c; done
	@ln -sf berth $(BIN)/kubectl-berth
	@install -m 755 tools/release/kubectl_complete-berth $(BIN)/kubectl_complete-berth

.PHONY: demo
demo: ## Play one workload on hollow nodes under kube-scheduler, then under Berth.
	$(call say,building bin/berth-demo (the first time compiles Kubernetes: about 6 minutes on 2 cores))
	@mkdir -p $(BIN)
	@build/compile.sh -ldflags '$(LDFLAGS)' -o $(BIN)/berth-demo ./cmd/berth-demo
	$(call say,running bin/berth-demo run $(DEMO_FLAGS))
	@$(BIN)/berth-demo run $(DEMO_FLAGS)

.PHONY: demo-figures
demo-figures: ## The figures of make demo: medians of five runs, with their range. About 20 minutes.
	@$(MAKE) --no-print-directory demo DEMO_FLAGS='--runs 5 $(DEMO_FLAGS)'

.PHONY: test
test: ## All tests except the slow suites, which have their own targets.
	@rm -rf $(TIMES) && mkdir -p $(TIMES)
	$(call say,with the race detector: packages that start goroutines and link no server and no kubelet of Kubernetes)
	@$(call TIMED,racing) -race -short -timeout 20m -skip '^($(ALONE))$$' $(RACING)
	$(call say,without it: those that start none)
	@$(call TIMED,light) -timeout 20m $(filter-out $(RACING),$(LIGHT))
	$(call say,and tests that the race detector would slow down)
	@$(call TIMED,alone) -timeout 20m -run '^($(ALONE)|$(BOTH))$$' $(call once,WITH_ALONE)
	$(call say,the lab)
	@$(GO) -C lab test ./...
	@$(MAKE) --no-print-directory $(patsubst %,$(BIN)/berth-scheduler-k8s%,$(filter-out $(lastword $(SCHEDULERS)),$(SCHEDULERS)))
	@$(foreach v,$(filter-out $(lastword $(SCHEDULERS)),$(SCHEDULERS)),$(GO) test $(call modflags,$(v)) -parallel 8 -skip '^(TestReference|($(ALONE))$$)' ./internal/scheduler ./internal/scheduler/command &&) true
	@$(MAKE) --no-print-directory release-check
	$(call say,against the genuine kubelet and API server (the first time compiles Kubernetes: about 6 minutes on 2 cores))
	@$(call TIMED,heavy) -timeout 40m -p 2 -parallel 6 $(HEAVY)
	$(call say,what took how long)
	@$(GO) run ./test/times $(TIMES)/*.json
	$(call say,all tests passed)

.PHONY: test-race
test-race: ## Test the light packages under the race detector, before a release (30 minutes).
	@$(GO) test -race -timeout 60m $(LIGHT)

.PHONY: lint
lint: ## gofmt, go vet, staticcheck and the import lattice.
	$(call say,gofmt)
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "not gofmt-ed:"; echo "$$out"; exit 1; }
	$(call say,go vet)
	@$(GO) vet ./... && $(GO) -C lab vet ./...
	$(call say,staticcheck)
	@$(TOOL) staticcheck ./...
	$(call say,import lattice)
	@$(GO) test -count=1 -run 'TestImports|TestStrangers' ./test/repo

.PHONY: bench
bench: ## The engine's speed compared with the genuine kubelet, as ratios (docs/performance.md).
	$(call say,benchmarks of the engine)
	@$(GO) test -run '^$$' -bench . -benchmem -timeout 30m ./placement/...
	$(call say,beside the genuine kubelet managers on the same machines and pods)
	@$(GO) test -run '^$$' -bench . -benchmem -timeout 60m ./test/bench

.PHONY: fuzz
fuzz: ## Fuzz every parser and translator for FUZZTIME each (default 20s).
	@# A worker that is busy when the time runs out is no finding, though go test says "context deadline exceeded" and fails.
	@out=$$(mktemp); trap "rm -f $$out" EXIT; for p in $$(grep -rlE '^func Fuzz' --include=*_test.go . | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$p/*_test.go | sed 's/func //'); do \
	    echo "== $$p $$f"; \
	    $(GO) test -C $$p -run '^$$' -fuzz "^$$f$$" -fuzztime $${FUZZTIME:-20s} -fuzzminimizetime 100x . 2>&1 | tee $$out || \
	      { grep -q 'context deadline exceeded' $$out && ! grep -q 'Failing input' $$out; } || exit 1; done; done

.PHONY: clean
clean: ## Remove the build's files (Go's own caches stay).
	@rm -rf $(BIN) $(CACHE) _artifacts

-include build/*.mk
