# A tenant who means harm, beside a friendly load, on a real API server with hollow nodes of both authorities.

# Faults of the past that hostile-proof puts back one at a time, each a patch, and what of the last line has to tell of it.
HOSTILE_FAULTS ?= h1:killed h2:leftover h3a:nodesLost h4:leftover h6:overQuota
HOSTILE_PROOF  ?= -calm=30s -attempts=6000 -friendly=1 -limit=4m

.PHONY: e2e-hostile e2e-hostile-proof hostile-build
e2e-hostile: hostile-build ## A tenant with the role edit who means harm, two schedulers, and a friendly load that must not notice: SEED=n HOSTILE_FLAGS=-keep; the last line is JSON (10 to 15 minutes).
	$(call say,running bin/hostile -seed=$(SEED) $(HOSTILE_FLAGS))
	@$(BIN)/hostile -seed=$(SEED) $(HOSTILE_FLAGS)

hostile-build:
	$(call say,building bin/hostile)
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/hostile ./test/hostile

e2e-hostile-proof: ## Put known faults back, one at a time, and demand that hostile finds each (HOSTILE_FAULTS=h2:leftover for one; 5 minutes each).
	@mkdir -p $(BIN)
	@for f in $(HOSTILE_FAULTS); do \
		printf '\n== %s put back\n' "$${f%%:*}"; \
		build/overlay.sh test/hostile/faults/$${f%%:*}.patch $(BIN)/hostile-overlay || exit 1; \
		$(GO) build -overlay=$(BIN)/hostile-overlay/overlay.json -ldflags '$(LDFLAGS)' -o $(BIN)/hostile-$${f%%:*} ./test/hostile || exit 1; \
		$(BIN)/hostile-$${f%%:*} -seed=$(SEED) -until=$${f##*:} $(HOSTILE_PROOF) >$(BIN)/hostile-$${f%%:*}.log 2>&1 || true; \
		build/found.sh "$${f##*:}" $(BIN)/hostile-$${f%%:*}.log || { tail -30 $(BIN)/hostile-$${f%%:*}.log; echo "hostile has not found $${f%%:*}"; exit 1; }; \
	done
