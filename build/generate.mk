# Deepcopy functions and custom resource definitions, written by controller-gen of the tools module, and the policy that warns
# of annotations which nobody reads.
CONTROLLER_GEN = go tool -modfile=tools/go.mod controller-gen
API_PATHS = ./api/...
# A Job carries whole pod templates: without their descriptions its schema fits the annotation that kubectl apply keeps.
JOB_PATHS = ./api/batch/...
# PodGroups of scheduler-plugins are read where others have installed their definition.
CRD_PATHS = ./api/batch/... ./api/berth/... ./api/nodeinfo/... ./api/nrt/... ./api/scheduling/volcano/...
IGNORED = deploy/policies/ignored-annotations.yaml

.PHONY: generate generate-check
generate: ## Deepcopy functions, CRDs and the policy of ignored annotations.
	$(CONTROLLER_GEN) object paths=$(API_PATHS)
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true $(CRD_PATHS:%=paths=%) output:crd:dir=deploy/crds
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true,maxDescLen=0 paths=$(JOB_PATHS) output:crd:dir=deploy/crds
	$(GO) run ./build/warnings > $(IGNORED).new && mv $(IGNORED).new $(IGNORED)
	$(MAKE) --no-print-directory reference

.PHONY: reference
reference: ## Write docs/reference from the code.
	@$(GO) test -count=1 -run '^TestReference' ./internal/cli ./internal/survey ./internal/agent ./internal/jobs ./internal/scheduler -rewrite

generate-check: ## Fail if anything generated is out of date.
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && cp -r api deploy/crds deploy/policies docs/reference docs/images "$$tmp" && $(MAKE) --no-print-directory generate >/dev/null && \
	if ! diff -r api "$$tmp/api" || ! diff -r deploy/crds "$$tmp/crds" || ! diff -r deploy/policies "$$tmp/policies" || ! diff -r docs/reference "$$tmp/reference" || ! diff -r docs/images "$$tmp/images"; then \
		echo "generated files were stale; they are written now: commit them" >&2; exit 1; fi
