# A cluster to try things on, on this machine.
.PHONY: play
play: ## A cluster to try things on, until Ctrl-C: a real API server, hollow nodes, Berth. PLAY_FLAGS='--nodes 6'.
	@command -v kubectl >/dev/null || $(MAKE) --no-print-directory $(BIN)/kubectl
	$(call say,building bin/berth and bin/berth-demo (the first time compiles Kubernetes: about 6 minutes on 2 cores))
	@mkdir -p $(BIN)
	@build/compile.sh -ldflags '$(LDFLAGS)' -o $(BIN)/berth ./cmd/berth
	@ln -sf berth $(BIN)/kubectl-berth
	@build/compile.sh -ldflags '$(LDFLAGS)' -o $(BIN)/berth-demo ./cmd/berth-demo
	@exec $(BIN)/berth-demo up $(PLAY_FLAGS)

# kubectl for machines that have none, of the Kubernetes that go.mod names. It is a module of its own, because it imports modules that
# nothing else here needs. It comes first: a machine that cannot build it says so before the long build.
$(BIN)/kubectl:
	$(call say,building bin/kubectl $(KUBE): there is none on this machine (2 minutes))
	@mkdir -p $(BIN)
	@build/compile.sh -modfile=tools/kubectl/go.mod -ldflags '$(LDFLAGS)' -o $@ k8s.io/kubernetes/cmd/kubectl
