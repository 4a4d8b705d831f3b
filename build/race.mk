# The race between reports and Bindings at random, on a real API server and hollow nodes: a seed replays what is done, not
# the moments at which the parts answer.
OPERATIONS ?= 2000

.PHONY: race
race: ## Create and delete pods with faults on every connection: OPERATIONS=5000 SEED=n (about 90 ms an operation).
	$(call say,$(OPERATIONS) operations of seed $(or $(filter-out 0,$(SEED)),1))
	@$(GO) test -count=1 -v -timeout 0 -run '^TestRaceAtRandom$$' ./test/e2e -args -race-operations=$(OPERATIONS) -race-seed=$(or $(filter-out 0,$(SEED)),1)
