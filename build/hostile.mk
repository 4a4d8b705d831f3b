# A tenant who means harm, beside a friendly load, on a real API server with hollow nodes of both authorities.

# Faults of the past that hostile-proof puts back one at a time, each a patch: its name, the field of the last line that has
# to tell of it, and what a line HARM or LEFT has to say.
HOSTILE_FAULTS ?= h1:killed h2:leftover:.core.reservations.users h3a:nodesLost h4:leftover:.core.gangs h6:overQuota
HOSTILE_PROOF  ?= -calm=30s -friendly=1
# What is left over is looked for at the end of a run, so that it is a short one. Any other harm ends the run when it is seen.
HOSTILE_LEFT   ?= -attempts=6000 -limit=4m
HOSTILE_SEEN   ?= -attempts=30000 -limit=12m

.PHONY: e2e-hostile e2e-hostile-proof hostile-build
e2e-hostile: hostile-build ## A hostile tenant with the role edit, two schedulers, and a friendly load that must not be affected: SEED=n HOSTILE_FLAGS=-keep; the last line is JSON (15 to 20 minutes).
	$(call say,running bin/hostile -seed=$(SEED) $(HOSTILE_FLAGS))
	@$(BIN)/hostile -seed=$(SEED) $(HOSTILE_FLAGS)

hostile-build:
	$(call say,building bin/hostile)
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/hostile ./test/hostile

e2e-hostile-proof: ## Add known faults again, one at a time, and check that hostile finds each (HOSTILE_FAULTS=h2:leftover for one; 5 minutes each).
	@mkdir -p $(BIN)
	@for f in $(HOSTILE_FAULTS); do \
		IFS=: read -r name field text <<<"$$f"; \
		printf '\n== %s put back\n' "$$name"; \
		limits="$(HOSTILE_SEEN)"; [ "$$field" != leftover ] || limits="$(HOSTILE_LEFT)"; \
		build/overlay.sh test/hostile/faults/$$name.patch $(BIN)/_hostile-overlay || exit 1; \
		$(GO) build -overlay=$(BIN)/_hostile-overlay/overlay.json -ldflags '$(LDFLAGS)' -o $(BIN)/hostile-$$name ./test/hostile || exit 1; \
		$(BIN)/hostile-$$name -seed=$(SEED) -until=$$field $(HOSTILE_PROOF) $$limits >$(BIN)/hostile-$$name.log 2>&1 || true; \
		build/found.sh "$$field" $(BIN)/hostile-$$name.log "$$text" || { tail -30 $(BIN)/hostile-$$name.log; echo "hostile has not found $$name"; exit 1; }; \
	done
