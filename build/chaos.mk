# A cluster of real parts, broken at random from a seed: SEED=n replays a plan, DURATION=1h goes on for longer.
SEED     ?= 0
DURATION ?= 5m

.PHONY: chaos
chaos: ## Break a cluster at random and demand that Berth keeps its promises: SEED=n DURATION=5m CHAOS_FLAGS=-nodes=8.
	$(call say,building bin/chaos (the first time compiles Kubernetes: about 6 minutes on 2 cores))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/chaos ./test/chaos
	$(call say,running bin/chaos -seed=$(SEED) -duration=$(DURATION) $(CHAOS_FLAGS))
	@$(BIN)/chaos -seed=$(SEED) -duration=$(DURATION) $(CHAOS_FLAGS)
