# This repository beside the newest release of Kubernetes, before anybody moves to it: docs/maintain.md. The second go.mod is
# this one with Kubernetes and its staging modules at that release.
NEXT         ?=
NEXT_DIR     := $(CACHE)/next
NEXT_PACKAGE ?= ./cmd/berth-scheduler

.PHONY: next
next: ## Compile berth-scheduler with the newest Kubernetes and list what breaks, and where: NEXT=v1.38.0-rc.1 NEXT_PACKAGE=./... .
	@mkdir -p $(NEXT_DIR) && cp go.mod go.sum $(NEXT_DIR)
	@kube='$(NEXT)'; [ -n "$$kube" ] || kube=$$($(GO) list -m -versions k8s.io/kubernetes | $(GO) run ./test/next newest); \
	printf '\n\033[1m== %s\033[0m\n' "$(NEXT_PACKAGE) with Kubernetes $$kube"; \
	theirs=$$($(GO) mod download -json k8s.io/kubernetes@$$kube | awk -F'"' '$$2 == "GoMod" {print $$4}'); \
	$(GO) mod edit -require=k8s.io/kubernetes@$$kube \
	  $$(awk -v v=v0$${kube#v1} '$$1 ~ /^k8s.io\// && $$2 == "v0.0.0" {print "-replace=" $$1 "=" $$1 "@" v}' $$theirs) $(NEXT_DIR)/go.mod; \
	{ $(GO) build -modfile=$(NEXT_DIR)/go.mod -mod=mod -gcflags=github.com/berth-dev/berth/...=-e -o /dev/null $(NEXT_PACKAGE) 2>&1 || true; } | \
	  tee $(NEXT_DIR)/build.txt | $(GO) run ./test/next
