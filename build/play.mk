# A cluster to try things on, on this machine.
.PHONY: play
play: ## A cluster to try things on, until Ctrl-C: a real API server, hollow nodes, Berth. PLAY_FLAGS='--nodes 6'.
	$(call say,building bin/berth and bin/berth-demo (the first time compiles Kubernetes: about 6 minutes on 2 cores))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/berth ./cmd/berth
	@ln -sf berth $(BIN)/kubectl-berth
	@$(GO) build -ldflags '$(LDFLAGS)' -o $(BIN)/berth-demo ./cmd/berth-demo
	@command -v kubectl >/dev/null || $(MAKE) --no-print-directory $(BIN)/kubectl
	@exec $(BIN)/berth-demo up $(PLAY_FLAGS)

# kubectl of the Kubernetes that go.mod names, for machines that have none.
$(BIN)/kubectl:
	$(call say,building bin/kubectl $(KUBE): there is none on this machine (2 minutes))
	@mkdir -p $(BIN)
	@$(GO) build -ldflags '$(LDFLAGS)' -o $@ k8s.io/kubernetes/cmd/kubectl
