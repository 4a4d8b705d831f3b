# Both schedulers in a large cluster. The API server and the schedulers are real, the nodes are simulated; nothing else
# should run on the machine meanwhile. PODS and PAIRS are for each number of NODES, the last also for the rest. AGENTS=berth lets
# agents report under Berth alone; the default compares the schedulers alone. Results go to _artifacts/clusterbench. The first run of
# 10,000 pods on a control plane is slower than the next: CLUSTERBENCH_FLAGS=-warm-up=10000 leaves it out. The last line is JSON, and
# the target fails where Berth falls short beside the stock scheduler (test/clusterbench/floors.go).
NODES     ?= 5000
PODS      ?= 10000
PAIRS     ?= 5
AGENTS    ?= always
HEARTBEAT ?= 1m
LENGTH    ?= 1m

CLUSTERBENCH_OUT := _artifacts/clusterbench
CLUSTERBENCH = $(BIN)/clusterbench $(1) -nodes=$(NODES) -scheduler=$(BIN)/berth-scheduler -out=$(CLUSTERBENCH_OUT)

.PHONY: clusterbench-build
clusterbench-build:
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/clusterbench ./test/clusterbench
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/berth-scheduler ./cmd/berth-scheduler

.PHONY: bench-cluster
bench-cluster: clusterbench-build ## Both schedulers on a real API server: NODES=5000,15000 PODS=10000,1000 PAIRS=5,1 (hours; PODS=2000 PAIRS=5: 20 minutes).
	$(call say,Filter of one new pinned pod over all of $(NODES) nodes)
	@$(call CLUSTERBENCH,cluster)/filter -pods=1000 -pairs=0 -warm-up=0 -filter-runs=3 -filter-pods=105 -agents=$(AGENTS) -heartbeat=$(HEARTBEAT) $(if $(filter 0,$(shell id -u)),-first) $(CLUSTERBENCH_FLAGS)
	$(call say,$(PAIRS) pairs of runs: $(PODS) pods on $(NODES) simulated nodes)
	@$(call CLUSTERBENCH,cluster) -pods=$(PODS) -pairs=$(PAIRS) -agents=$(AGENTS) -heartbeat=$(HEARTBEAT) -apart -fresh -floors -filter-runs=0 $(CLUSTERBENCH_FLAGS)

.PHONY: bench-gangs
bench-gangs: clusterbench-build ## Pods in gangs of 16 beside the same pods one by one: NODES=1000 PODS=1600 PAIRS=5 (20 minutes).
	$(call say,$(PAIRS) pairs of runs: $(PODS) pods on $(NODES) simulated nodes)
	@$(call CLUSTERBENCH,gangs) -pods=$(PODS) -pairs=$(PAIRS) -heartbeat=$(HEARTBEAT) -apart $(CLUSTERBENCH_FLAGS)

.PHONY: bench-writes
bench-writes: clusterbench-build ## What reports and heartbeats of NODES agents cost the API server (five minutes).
	$(call say,reports and heartbeats of $(NODES) nodes with 256 CPUs and 60 pods)
	@$(call CLUSTERBENCH,writes) -length=$(LENGTH) $(CLUSTERBENCH_FLAGS)
	$(call say,one report by server-side apply, by update and by patch)
	@$(call CLUSTERBENCH,ways) $(CLUSTERBENCH_FLAGS)
