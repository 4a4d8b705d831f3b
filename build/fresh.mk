# README and tutorial on a machine that has nothing: a root of Debian 12 with the packages that README names, in namespaces of its
# own, without a network. Go's toolchain and modules are this machine's, mounted read-only. Needs root, and a mirror of Debian when
# the root is made: apt's, or FRESH_FLAGS='-mirror URL'. FRESH_FLAGS=-cold compiles everything, as on the first day.
.PHONY: fresh
fresh: ## README's and the tutorial's commands, with their outputs, on a plain Debian 12, then make demo; the last line is JSON (10 minutes; FRESH_FLAGS=-cold: 25).
	$(call say,trying README and tutorial on a fresh machine)
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 $(GO) build -o $(BIN)/fresh ./test/fresh
	@$(BIN)/fresh $(FRESH_FLAGS)
