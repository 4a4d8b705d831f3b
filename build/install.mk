# The Helm chart of deploy/chart/berth. Helm is a tool in a module of its own, tools/helm.
HELM       = $(GO) tool -modfile=tools/helm/go.mod helm
CHART     := deploy/chart/berth
# The chart's files/ are links to the plain manifests, which Helm remarks upon each time.
QUIETLY    = 2> >(grep -v 'found symbolic link' >&2 || true)
IMAGE_REPO ?= berth-dev

# Values that switch everything on.
CHART_EVERYTHING := --set crds.nodeResourceTopology=true,agent.nodeResourceTopology=true,agent.numatopology=true,agent.debug=true,agent.kubelet.configDropInDir=/etc/kubernetes/kubelet.conf.d \
  --set scheduler.featureGates.SchedulerAsyncAPICalls=true,scheduler.args.staleAfter=2m \
  --set monitoring.serviceMonitor.enabled=true,monitoring.prometheusRule.enabled=true,monitoring.dashboard.enabled=true \
  --set pool.enabled=true,map.enabled=true,controller.enabled=true,policies.agentsWriteAmountsAlone=true,controller.schedulerNames[0]=volcano,pool.namespaceSelector.matchLabels.numa=here,agent.networkPolicy.enabled=true,agent.networkPolicy.from[0].namespaceSelector.matchLabels.name=monitoring \
  --set agent.extraArgs={--rescan=5s},scheduler.extraEnv[0].name=GOGC,scheduler.extraEnv[0].value=off
# What has no default: the images' place.
CHART_IMAGES := --set image.repository=$(IMAGE_REPO)

.PHONY: chart-lint
chart-lint: ## helm lint and helm template, for each way to install (the first time compiles Helm: some minutes).
	$(call say,helm lint)
	@$(HELM) lint --strict $(CHART) $(CHART_IMAGES) $(QUIETLY)
	@$(HELM) lint --strict $(CHART) $(CHART_IMAGES) -f $(CHART)/values-default-scheduler.yaml $(QUIETLY)
	@$(HELM) lint --strict $(CHART) $(CHART_IMAGES) $(CHART_EVERYTHING) $(QUIETLY)
	$(call say,helm template)
	@for values in "" "-f $(CHART)/values-default-scheduler.yaml" "$(CHART_EVERYTHING)" "--set scheduler.enabled=false,agent.kubelet.configSource=configz"; do \
	  rendered=$$($(HELM) template berth $(CHART) $(CHART_IMAGES) -n berth-system --kube-version $(KUBE) --api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy $$values $(QUIETLY)); \
	  printf '%6d lines with values: %s\n' "$$(wc -l <<<"$$rendered")" "$${values:-as they are}"; done

.PHONY: alerts-check
alerts-check: ## Alert rules and dashboard, with Prometheus's own parser.
	$(call say,PromQL)
	@$(GO) -C tools/promql run . $(CURDIR)/deploy/alerts/berth.yaml $(CURDIR)/deploy/dashboards/berth.json
