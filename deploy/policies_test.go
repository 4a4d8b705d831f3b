package deploy

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// denied returns the messages of all validations that refuse a request; nil if the policy does not
// match it. A failing expression refuses, as with failurePolicy Fail.
func denied(t *testing.T, file string, a admission.Attributes) (messages []string) {
	t.Helper()
	return deniedIn(t, Folder("policies"), file, a)
}

// deniedIn is denied for a policy in another folder.
func deniedIn(t *testing.T, in fs.FS, file string, a admission.Attributes) (messages []string) {
	t.Helper()
	data, err := fs.ReadFile(in, file)
	if err != nil {
		t.Fatal(err)
	}
	c := compile(t, data)
	evaluate := func(expressions []cel.ExpressionAccessor) []cel.EvaluationResult {
		t.Helper()
		condition := c.condition(t, expressions)
		versioned := &admission.VersionedAttributes{Attributes: a, VersionedKind: a.GetKind(),
			VersionedObject: admission.NewLazyObject(a.GetObject()), VersionedOldObject: admission.NewLazyObject(a.GetOldObject())}
		request := cel.CreateAdmissionRequest(a, metav1.GroupVersionResource(a.GetResource()), metav1.GroupVersionKind(a.GetKind()))
		results, _, err := condition.ForInput(t.Context(), versioned, request, cel.OptionalVariableBindings{}, nil, apiservercel.RuntimeCELCostBudget)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	policy := &c.policy
	matches := true
	for i, r := range evaluate(c.matches()) {
		switch {
		case r.Error != nil || r.EvalResult.Value() == true:
		case !strings.HasPrefix(policy.Spec.MatchConditions[i].Name, "has-a-key"):
			return nil
		default: // only saves time: no validation may refuse
			matches = false
		}
	}
	for i, r := range evaluate(c.validations()) {
		switch {
		case r.Error != nil:
			messages = append(messages, r.Error.Error())
		case r.EvalResult.Value() != true:
			messages = append(messages, message(t, &policy.Spec.Validations[i], evaluate))
		}
	}
	if !matches && len(messages) > 0 {
		t.Errorf("a match condition of %s hides %q", policy.Name, messages)
	}
	return messages
}

// compiled is a policy with its expressions, compiled once as in the API server, because
// compilation is slow.
type compiled struct {
	policy     admissionregistrationv1.ValidatingAdmissionPolicy
	compiler   *cel.CompositedCompiler
	conditions map[string]cel.ConditionEvaluator
}

// compiledBefore has compiled policies by their text.
var compiledBefore = map[string]*compiled{}

// compile compiles the policy in the first document of a text.
func compile(t testing.TB, text []byte) *compiled {
	t.Helper()
	if c := compiledBefore[string(text)]; c != nil {
		return c
	}
	c := &compiled{conditions: map[string]cel.ConditionEvaluator{}}
	if err := yaml.UnmarshalStrict(bytes.SplitN(text, []byte("\n---\n"), 2)[0], &c.policy); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.compiler, err = cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())); err != nil {
		t.Fatal(err)
	}
	for _, v := range c.policy.Spec.Variables {
		r := c.compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
		if r.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, r.Error)
		}
	}
	compiledBefore[string(text)] = c
	return c
}

// matches returns the match conditions of the policy.
func (c *compiled) matches() (out []cel.ExpressionAccessor) {
	for i := range c.policy.Spec.MatchConditions {
		out = append(out, (*matchconditions.MatchCondition)(&c.policy.Spec.MatchConditions[i]))
	}
	return out
}

// validations returns the validations of the policy.
func (c *compiled) validations() (out []cel.ExpressionAccessor) {
	for _, v := range c.policy.Spec.Validations {
		out = append(out, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message})
	}
	return out
}

// condition compiles the expressions.
func (c *compiled) condition(t testing.TB, expressions []cel.ExpressionAccessor) cel.ConditionEvaluator {
	t.Helper()
	key := ""
	for _, e := range expressions {
		key += fmt.Sprintf("%T %q ", e, e.GetExpression())
	}
	if known := c.conditions[key]; known != nil {
		return known
	}
	made := c.compiler.CompileCondition(expressions, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
	if errs := made.CompilationErrors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	c.conditions[key] = made
	return made
}

// message returns the message of the API server's answer.
func message(
	t *testing.T, v *admissionregistrationv1.Validation, evaluate func([]cel.ExpressionAccessor) []cel.EvaluationResult,
) string {
	t.Helper()
	if v.MessageExpression == "" {
		return v.Message
	}
	r := evaluate([]cel.ExpressionAccessor{&validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}})
	if r[0].Error != nil {
		t.Fatal(r[0].Error)
	}
	return r[0].EvalResult.Value().(string)
}

var (
	topologies = schema.GroupVersionKind{Group: "berth.dev", Version: "v1alpha1", Kind: "NodeTopology"}
	leases     = schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}
	pluralOf   = map[string]string{"NodeTopology": "nodetopologies", "Lease": "leases"}
)

// update returns a request to write object over old.
func update(kind schema.GroupVersionKind, namespace string, by user.Info, object, old map[string]any) admission.Attributes {
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	return admission.NewAttributesRecord(&unstructured.Unstructured{Object: object}, &unstructured.Unstructured{Object: old}, kind, namespace, name,
		kind.GroupVersion().WithResource(pluralOf[kind.Kind]), "", admission.Update, &metav1.UpdateOptions{}, false, by)
}

// TestOwnersMayBeTakenAway: after kubectl delete node --cascade=orphan, the garbage collector
// removes the deleted Node from the owners of its objects. Otherwise the Node would stay. The
// garbage collector may change nothing else, and other users may not even change this.
func TestOwnersMayBeTakenAway(t *testing.T) {
	const file = "agents-write-their-own-node.yaml"
	collector := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:generic-garbage-collector"}
	admin := &user.DefaultInfo{Name: "admin"}
	agent := &user.DefaultInfo{Name: "system:serviceaccount:berth-system:berth-agent", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}}
	for _, kind := range []schema.GroupVersionKind{topologies, leases} {
		namespace, name := "", "n1"
		old := map[string]any{"spec": map[string]any{"machine": "numa:1"}, "status": map[string]any{"sequence": int64(7)}}
		if kind == leases {
			namespace, name = "berth-system", "berth-agent.n1"
			old = map[string]any{"spec": map[string]any{"renewTime": "2026-11-20T12:00:00.000000Z"}}
		}
		old["apiVersion"], old["kind"] = kind.GroupVersion().String(), kind.Kind
		old["metadata"] = map[string]any{"name": name, "ownerReferences": []any{map[string]any{"kind": "Node", "name": "n1"}}}
		orphan := runtime.DeepCopyJSON(old)
		delete(orphan["metadata"].(map[string]any), "ownerReferences")
		forged := runtime.DeepCopyJSON(orphan)
		forged["spec"] = map[string]any{"machine": "numa:2", "renewTime": "2026-11-20T13:00:00.000000Z"}
		vanished := runtime.DeepCopyJSON(orphan)
		vanished["status"] = map[string]any{"sequence": int64(8)}
		for _, tc := range []struct {
			name   string
			by     user.Info
			object map[string]any
			denied bool
		}{
			{"the agent writes", agent, forged, false},
			{"the garbage collector takes the owner away", collector, orphan, false},
			{"the garbage collector writes the spec", collector, forged, true},
			{"the garbage collector writes the status", collector, vanished, true},
			{"somebody takes the owner away", admin, orphan, true},
		} {
			if got := denied(t, file, update(kind, namespace, tc.by, tc.object, old)); len(got) > 0 != tc.denied {
				t.Errorf("%s %s: refused by %q, want refused %t", kind.Kind, tc.name, got, tc.denied)
			}
		}
	}
}

// TestAgentsAreToldWhatTheyLack: if a token is bound to no node, the message must not name one.
func TestAgentsAreToldWhatTheyLack(t *testing.T) {
	object := map[string]any{"apiVersion": "berth.dev/v1alpha1", "kind": "NodeTopology", "metadata": map[string]any{"name": "ghost"}}
	for node, want := range map[string]string{
		"": "an agent whose token is bound to no node may not write ghost: " +
			"use the token of a pod, or one made with kubectl create token --bound-object-kind Node",
		"n1":    "the agent of node n1 may write only that node's objects, not ghost",
		"ghost": "",
	} {
		by := &user.DefaultInfo{Name: "system:serviceaccount:berth-system:berth-agent"}
		if node != "" {
			by.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {node}}
		}
		got := strings.Join(denied(t, "agents-write-their-own-node.yaml", update(topologies, "", by, object, object)), "; ")
		if got != want {
			t.Errorf("token bound to %q: told %q, want %q", node, got, want)
		}
	}
}

// TestStrangersAreToldWhoWrites: for a scheduler with another user, the message names its user and
// the required one.
func TestStrangersAreToldWhoWrites(t *testing.T) {
	for _, name := range []string{"berth.dev/placement", "berth.dev/bound-for"} {
		binding := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": "p", "annotations": map[string]any{name: "{}"}},
		}}
		for who, want := range map[string]string{
			"admin": "user admin may not write " + name + ", which only the scheduler may write: want a scheduler that runs as " +
				"system:kube-scheduler or system:serviceaccount:berth-system:berth-scheduler",
			"system:kube-scheduler": "",
		} {
			a := admission.NewAttributesRecord(binding, nil, binding.GroupVersionKind(), "default", "p",
				schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "binding", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: who})
			if got := strings.Join(denied(t, "placement-by-binding.yaml", a), "; "); got != want {
				t.Errorf("%s by %s: told %q, want %q", name, who, got, want)
			}
		}
	}
}
