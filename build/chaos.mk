# A cluster of real parts, broken at random from a seed: SEED=n replays a plan, DURATION=1h goes on for longer.
# SEED is that of all trials: 0 is one of the clock, which they print. The seeds of conformance and race begin at 1.
SEED     ?= 0
DURATION ?= 5m

# Ways in which chaos-proof lets the scheduler cheat; each run must end with a violation.
CHAOS_FRAUDS ?= promise order deaf stock

.PHONY: chaos chaos-build chaos-proof
chaos: chaos-build ## Break a cluster at random and check that Berth keeps its promises: SEED=n DURATION=5m CHAOS_FLAGS='-nodes=8 -v'.
	$(call say,running bin/chaos -seed=$(SEED) -duration=$(DURATION) $(CHAOS_FLAGS))
	@$(BIN)/chaos -seed=$(SEED) -duration=$(DURATION) $(CHAOS_FLAGS)

chaos-build:
	$(call say,building bin/chaos (the first time compiles Kubernetes: about 6 minutes on 2 cores))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/chaos ./test/chaos

chaos-proof: chaos-build ## Let the scheduler cheat in several ways and check that chaos detects each (6 minutes).
	@for f in $(CHAOS_FRAUDS); do \
		echo "$(BIN)/chaos -break=$$f -duration=40s"; \
		$(BIN)/chaos -break=$$f -duration=40s -seed=1 >$(BIN)/chaos-$$f.log 2>&1 || true; \
		grep -q '^VIOLATION [0-9]' $(BIN)/chaos-$$f.log || { tail -50 $(BIN)/chaos-$$f.log; echo "chaos has not noticed -break=$$f"; exit 1; }; \
		grep -m 2 '^VIOLATION [0-9]' $(BIN)/chaos-$$f.log | cut -c1-160; \
		sed -n 's/^logs and checkpoints are kept in //p' $(BIN)/chaos-$$f.log | xargs -r rm -rf; \
	done
