# Both schedulers in a large cluster. The API server and the schedulers are real, the nodes are simulated; nothing else
# should run on the machine meanwhile. NODES are numbers of nodes, one after the other; PODS, PAIRS and CYCLES are for
# each of them, the last also for the rest. AGENTS=berth lets agents report under Berth alone; the default compares the
# schedulers alone. Results go to _artifacts/clusterbench, one file for each set of flags and programs: a second call with
# the same goes on where the first ended. The first run of 10,000 pods on a control plane is slower than the next:
# CLUSTERBENCH_FLAGS=-warm-up=10000 leaves it out. The last line is JSON, and the target fails where Berth falls
# short beside the stock scheduler (test/clusterbench/floors.go). What was not measured is null there, named in the line
# before, and misses no floor.
NODES     ?= 5000
PODS      ?= 10000
PAIRS     ?= 5
AGENTS    ?= always
HEARTBEAT ?= 1m
LENGTH    ?= 1m
PROFILES  ?= chart,stock

# What is measured where nothing is said: 7 pairs of 2,000 pods on each number of nodes, and 3 of 10,000 on 5,000 nodes.
comma := ,
CYCLES ?= $(if $(filter command,$(origin NODES)),3,0$(comma)3$(comma)0)
bench-cluster: NODES = 500,5000,5000,15000
bench-cluster: PODS = 2000,2000,10000,2000
bench-cluster: PAIRS = 7,7,3,7
bench-cluster: HEARTBEAT = 2m

CLUSTERBENCH_OUT := _artifacts/clusterbench
CLUSTERBENCH = $(BIN)/clusterbench $(1) -nodes=$(NODES) -scheduler=$(BIN)/berth-scheduler -out=$(CLUSTERBENCH_OUT)

.PHONY: clusterbench-build
clusterbench-build:
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/clusterbench ./test/clusterbench
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/berth-scheduler ./cmd/berth-scheduler

.PHONY: bench-cluster
bench-cluster: clusterbench-build ## Compare both schedulers on a real API server (seven hours; another call continues where it ended; NODES=5000 PODS=2000 PAIRS=1 PROFILES=chart: a part).
	$(call say,$(PAIRS) pairs of runs: $(PODS) pods on $(NODES) simulated nodes with the profiles $(PROFILES))
	@$(call CLUSTERBENCH,cluster) -pods=$(PODS) -pairs=$(PAIRS) -profiles=$(PROFILES) -agents=$(AGENTS) -heartbeat=$(HEARTBEAT) -apart -fresh -floors -filter-runs=$(CYCLES) -filter-pods=105 $(CLUSTERBENCH_FLAGS)

bench-burst: NODES = 100
bench-burst: PODS = 1000
bench-burst: PAIRS = 7
.PHONY: bench-burst
bench-burst: clusterbench-build ## A thousand pinned pods at once on a hundred nodes, under either scheduler (ten minutes).
	$(call say,$(PAIRS) pairs of runs: $(PODS) pods on $(NODES) simulated nodes)
	@$(call CLUSTERBENCH,cluster) -pods=$(PODS) -pairs=$(PAIRS) -loads=pinned -heartbeat=$(HEARTBEAT) -apart -warm-up=$(PODS) -filter-runs=0 -floors $(CLUSTERBENCH_FLAGS)

.PHONY: bench-gangs
bench-gangs: clusterbench-build ## Pods in gangs of 16, compared with the same pods one by one: NODES=1000 PODS=1600 PAIRS=5 (20 minutes).
	$(call say,$(PAIRS) pairs of runs: $(PODS) pods on $(NODES) simulated nodes)
	@$(call CLUSTERBENCH,gangs) -pods=$(PODS) -pairs=$(PAIRS) -heartbeat=$(HEARTBEAT) -apart -floors $(CLUSTERBENCH_FLAGS)

bench-starts: NODES = 15000
bench-starts: PODS = 100000
bench-starts: PAIRS = 3
bench-starts: HEARTBEAT = 2m
.PHONY: bench-starts
bench-starts: clusterbench-build ## How soon each scheduler binds its first pod after it starts: NODES=15000 PODS=100000 PAIRS=3 (half an hour).
	$(call say,$(PAIRS) pairs of starts with $(NODES) simulated nodes and $(PODS) pods that run)
	@$(call CLUSTERBENCH,starts) -pods=$(PODS) -pairs=$(PAIRS) -heartbeat=$(HEARTBEAT) -apart -floors $(CLUSTERBENCH_FLAGS)

# In shadow mode kube-scheduler keeps its own default arguments.
bench-shadow: PROFILES = stock
bench-shadow: PODS = 2000
bench-shadow: PAIRS = 1
.PHONY: bench-shadow
bench-shadow: clusterbench-build ## Resources of shadow mode, compared with kube-scheduler: NODES=5000 PODS=2000 PAIRS=1 (five minutes).
	$(call say,$(PAIRS) runs of each kind: $(PODS) pods on $(NODES) simulated nodes)
	@$(call CLUSTERBENCH,shadow) -pods=$(PODS) -pairs=$(PAIRS) -profiles=$(PROFILES) -heartbeat=$(HEARTBEAT) -apart -floors $(CLUSTERBENCH_FLAGS)

.PHONY: bench-writes
bench-writes: clusterbench-build ## Load of the API server by reports and heartbeats of NODES agents (five minutes).
	$(call say,reports and heartbeats of $(NODES) nodes with 256 CPUs and 60 pods)
	@$(call CLUSTERBENCH,writes) -length=$(LENGTH) $(CLUSTERBENCH_FLAGS)
