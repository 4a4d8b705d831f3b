# The engine against the genuine kubelet. N is the number of admissions to compare, SEED the seed of the first case;
# FILE=cases.ndjson compares the cases of a file. A mismatch is shrunk and printed as a line for `go run ./test/replay`.
N ?= 20000
CONFORMANCE_VERSIONS ?= 1.36 1.35 1.34 1.33

.PHONY: conformance
conformance: ## The engine against the genuine kubelet on random cases: N=100000 SEED=1 (about a minute per 60,000).
	$(call say,$(N) admissions by the engine and by the kubelet managers of Kubernetes $(KUBE))
	@$(GO) test -count=1 -timeout 0 -v -run '^TestConformance$$' ./test/conformance -args -n=$(N) -seed=$(or $(filter-out 0,$(SEED)),1) $(if $(FILE),-file=$(abspath $(FILE)))

.PHONY: conformance-checkpoints
conformance-checkpoints: ## Compare predictions whether a kubelet starts with random checkpoints with the kubelet's own code: N=10000 SEED=1 (about a minute per 10,000).
	$(call say,$(N) pairs of checkpoints and configuration by berth check and by the kubelet managers of Kubernetes $(KUBE))
	@$(GO) test -count=1 -timeout 0 -v -run '^TestCheckpoints$$' ./test/conformance -args -folders=$(N) -seed=$(or $(filter-out 0,$(SEED)),1) \
	  | awk '{ print; if (/ differ$$/) last = $$0 } END { print last }'

.PHONY: conformance-versions
conformance-versions: ## The two conformance tests against the kubelets of 1.36, 1.35, 1.34 and 1.33 (each compiled once: some 5 minutes).
	@mkdir -p $(BIN)
	@for v in $(CONFORMANCE_VERSIONS); do \
	  printf '\n== building the managers of Kubernetes %s\n' $$v; \
	  $(GO) build -modfile=test/conformance/versions/v$$v/go.mod -tags kube$${v/./} -o $(BIN)/kubelet-$$v ./test/conformance/kubelet; \
	  printf '\n== %s admissions and checkpoints by the engine and by the kubelet managers of Kubernetes %s\n' $(N) $$v; \
	  $(GO) test -count=1 -timeout 0 -v -run '^(TestVersion|TestCheckpointsOfVersion)$$' ./test/conformance -args -n=$(N) -folders=$(N) -seed=$(or $(filter-out 0,$(SEED)),1) -kubelet=$(BIN)/kubelet-$$v -version=$$v; \
	done

# Which gates a kubelet has is printed by what it registers them with, one file for each release.
GATES = internal/featuregates/releases

.PHONY: gates
gates: ## The feature gates of each kubelet, printed by its own packages into internal/featuregates/releases.
	@$(GO) run ./test/conformance/gates > $(GATES)/.new && mv $(GATES)/.new $(GATES)/$(basename $(KUBE:v%=%)).txt
	@for v in $(CONFORMANCE_VERSIONS); do \
	  $(GO) run -modfile=test/conformance/versions/v$$v/go.mod -tags kube$${v/./} ./test/conformance/gates > $(GATES)/.new && mv $(GATES)/.new $(GATES)/$$v.txt; \
	done

.PHONY: conformance-tables
conformance-tables: ## The kubelet's own test tables, run through the engine (compiles those tests: some 3 minutes).
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT; \
	printf '\n== %s\n' "recording what the kubelet's own tests call and expect"; \
	BERTH_TABLES_OUT=$$tmp/calls.ndjson $(GO) test -count=1 -timeout 60m -run '^TestRecord$$' ./test/conformance/tables; \
	printf '\n== %s\n' 'asking the engine the same'; \
	BERTH_TABLES=$$tmp/calls.ndjson $(GO) test -count=1 -v -run '^(TestKubeletTables|TestMergeTables)$$' ./test/conformance/tables ./placement
