# Gangs on a real API server with hollow nodes.
.PHONY: e2e-gangs
e2e-gangs: ## Pods that start together: whole, too large, competing and replaced (2 minutes).
	@BERTH_SLOW_SCENES=1 $(GO) test -count=1 -v -timeout 20m -run '^TestGangs$$' ./test/e2e
