# Gangs on a real API server with hollow nodes.
.PHONY: e2e-gangs
e2e-gangs: ## Pods that start together: whole, too large, competing, replaced, and with a scheduler that dies.
	@$(GO) test -count=1 -v -timeout 20m -run '^TestGangs$$' ./test/e2e
