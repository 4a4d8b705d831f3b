# Deepcopy functions and custom resource definitions, written by controller-gen of the tools module, and the policies about
# annotations and values that have no effect, and about kinds that are not served.
CONTROLLER_GEN = go tool -modfile=tools/go.mod controller-gen
API_PATHS = ./api/...
# A Job carries whole pod templates: without their descriptions its schema fits the annotation that kubectl apply keeps.
JOB_PATHS = ./api/batch/...
# PodGroups of scheduler-plugins are read where others have installed their definition.
CRD_PATHS = ./api/batch/... ./api/berth/... ./api/nodeinfo/... ./api/nrt/... ./api/scheduling/volcano/...

.PHONY: generate generate-check
generate: ## Deepcopy functions, CRDs, the policies that warn, and pages made from code.
	$(CONTROLLER_GEN) object paths=$(API_PATHS)
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true $(CRD_PATHS:%=paths=%) output:crd:dir=deploy/crds
	$(CONTROLLER_GEN) crd:generateEmbeddedObjectMeta=true,maxDescLen=0 paths=$(JOB_PATHS) output:crd:dir=deploy/crds
	$(GO) test -count=1 -run '^TestPolicies$$' ./test/warnings -rewrite
	$(MAKE) --no-print-directory reference

.PHONY: reference
reference: ## Write docs/reference from the code, and the table of docs/performance.md from its files.
	@$(GO) test -count=1 -run '^TestReference' ./internal/cli ./internal/survey ./internal/agent ./internal/jobs ./internal/scheduler ./internal/scheduler/witness ./test/fields/fates ./test/clusterbench/results -rewrite

generate-check: ## Fail if anything generated is out of date.
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && cp -r api deploy/crds deploy/policies deploy/jobs docs/reference docs/images docs/performance.md "$$tmp" && $(MAKE) --no-print-directory generate >/dev/null && \
	if ! diff -r api "$$tmp/api" || ! diff -r deploy/crds "$$tmp/crds" || ! diff -r deploy/policies "$$tmp/policies" || ! diff -r deploy/jobs "$$tmp/jobs" || ! diff -r docs/reference "$$tmp/reference" || ! diff docs/performance.md "$$tmp/performance.md" || ! diff -r docs/images "$$tmp/images"; then \
		echo "generated files were stale; they are written now: commit them" >&2; exit 1; fi
