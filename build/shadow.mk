# The demo's pods under kube-scheduler while Berth watches in shadow mode. SEED=n chooses the pods.
SHADOW_FLAGS ?=

.PHONY: e2e-shadow
e2e-shadow: ## kube-scheduler places the demo's pods and Berth, in shadow mode, foretells what the kubelets do: SEED=n; the last line is JSON (3 minutes).
	$(call say,building bin/shadow)
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/shadow ./test/shadow
	@$(BIN)/shadow -seed=$(or $(filter-out 0,$(SEED)),1) $(SHADOW_FLAGS)
