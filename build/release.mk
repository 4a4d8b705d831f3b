# What a release has, from this tree: nothing is needed but Go and its module proxy. RELEASES names releases and their
# commits. A release is built at the commit that is named: git checkout COMMIT && make release VERSION=v0.1.0.
PLATFORMS    ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64
# Where the folders of releases are fetched from, for berth.yaml, krew's manifest. This is a placeholder: there is no such host.
RELEASE_URL  ?= https://releases.example/berth
RELEASE      := $(BIN)/release/$(VERSION)
RELEASE_TOOL := $(GO) -C tools/release run .

.PHONY: release release-verify push release-check vulncheck
release: ## Static binaries, images (OCI archives, no engine needed; berth-scheduler for each Kubernetes release), chart, krew's manifest, checksums, SBOM, provenance in bin/release: PLATFORMS=linux/amd64 for fewer, SIGN_KEY=minisign.key to sign.
	$(call say,building $(VERSION) into bin/release/$(VERSION) (compiles Kubernetes $(SCHEDULERS) once for each Linux))
	@$(RELEASE_TOOL) build -source $(CURDIR) -out $(RELEASE) -version $(VERSION) -platforms $(PLATFORMS) -ldflags '$(LINKED)' -url '$(RELEASE_URL)' \
	  -commit "$$(git rev-parse HEAD)" -time "$$(git log -1 --format=%ct)"
	@$(if $(SIGN_KEY),$(RELEASE_TOOL) sign -key $(abspath $(SIGN_KEY)) $(RELEASE))
	@cd $(RELEASE) && ls -sh1

release-verify: ## Check that the files of a release are whole, and signed: RELEASE=folder PUBLIC_KEY=minisign.pub.
	@$(RELEASE_TOOL) verify $(if $(PUBLIC_KEY),-public-key $(abspath $(PUBLIC_KEY))) $(RELEASE)

vulncheck: ## Check all functions that the binaries call against Go's vulnerability database (needs vuln.go.dev).
	$(call say,govulncheck)
	@$(TOOL) govulncheck ./cmd/... || { code=$$?; [ $$code = 3 ] || echo "govulncheck could not ask its database at vuln.go.dev: nothing was checked" >&2; exit $$code; }

push: ## Copy the images of make release to a registry: IMAGE_REPO=registry.example/berth (credentials as docker login leaves them).
	@$(RELEASE_TOOL) push $(if $(INSECURE),-insecure) -to '$(IMAGE_REPO)' $(RELEASE)

release-check: ## Test the release tool.
	$(call say,tools/release)
	@$(GO) -C tools/release vet ./...
	@$(GO) -C tools/release test ./...

# The last release, which upgrades are tested from: its sources, and the programs that make e2e-upgrade starts.
LAST_VERSION  := $(shell awk '/^v/ {version = $$1} END {print version}' RELEASES)
LAST_COMMIT   := $(shell awk '/^v/ {commit = $$2} END {print commit}' RELEASES)
LAST          := $(CACHE)/last/$(LAST_VERSION)

$(LAST)/source/go.mod:
	@[ -n '$(LAST_COMMIT)' ] || { echo 'RELEASES names no release' >&2; exit 1; }
	@git cat-file -e '$(LAST_COMMIT)^{commit}' 2>/dev/null || { echo 'commit $(LAST_COMMIT), which RELEASES names, is not in this copy of the repository: fetch its whole history' >&2; exit 1; }
	@mkdir -p $(LAST)/source.new
	@git archive $(LAST_COMMIT) | tar -x -m -C $(LAST)/source.new
	@mv -T $(LAST)/source.new $(LAST)/source

# One build of the scheduler.
$(BIN)/berth-scheduler-k8s%: FORCE
	$(call say,building bin/$(@F))
	@mkdir -p $(BIN)
	@$(GO) build $(call modflags,$*) -ldflags '$(LINKED) -X k8s.io/component-base/version.gitVersion=$(call kube,$(or $(patsubst -modfile=%,%,$(filter -modfile=%,$(call modflags,$*))),go.mod))' -o $@ ./cmd/berth-scheduler

.PHONY: FORCE
FORCE:

# The last release as it was made, for the processor of the emulated machines.
$(LAST)/release/SHA256SUMS: $(LAST)/source/go.mod
	$(call say,building $(LAST_VERSION) as a release)
	@$(GO) -C $(LAST)/source/tools/release run . build -source $(LAST)/source -out $(@D) -version $(LAST_VERSION) -platforms linux/amd64 -commit $(LAST_COMMIT) \
	  -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(call kube,$(LAST)/source/go.mod) -X github.com/berth-dev/berth/internal/version.Version=$(LAST_VERSION)'

$(LAST)/bin/%: $(LAST)/source/go.mod
	$(call say,building $* of $(LAST_VERSION))
	@cd $(LAST)/source && $(GO) build -ldflags '-s -w -X github.com/berth-dev/berth/internal/version.Version=$(LAST_VERSION)' -o $@ ./cmd/$*
