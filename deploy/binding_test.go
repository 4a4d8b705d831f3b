package deploy

import (
	"io/fs"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// BenchmarkBinding is what the policy costs the API server for a Binding with a placement: by the
// scheduler, which is never refused, and by somebody else.
func BenchmarkBinding(b *testing.B) {
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", Annotations: map[string]string{
		"berth.dev/placement": `{"node":"n","sequence":7,"mode":"exact","containers":[{"name":"main","cpus":"2-5"}]}`,
	}}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	for _, by := range []string{"system:kube-scheduler", "somebody"} {
		a := admission.NewAttributesRecord(binding, nil, corev1.SchemeGroupVersion.WithKind("Binding"), "d", "p", corev1.SchemeGroupVersion.WithResource("pods"),
			"binding", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: by})
		b.Run(by, func(b *testing.B) { askPolicy(b, a) })
	}
}

// BenchmarkStatus is what the policy costs the API server for a write of a pod's status by its
// kubelet, which leaves the annotations alone.
func BenchmarkStatus(b *testing.B) {
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", Annotations: map[string]string{"berth.dev/placement": "{}"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Image: "app:1"}, {Name: "side", Image: "app:1"}}}}
	after := before.DeepCopy()
	after.Status.Phase = corev1.PodRunning
	a := admission.NewAttributesRecord(after, before, corev1.SchemeGroupVersion.WithKind("Pod"), "d", "p", corev1.SchemeGroupVersion.WithResource("pods"),
		"status", admission.Update, &metav1.UpdateOptions{}, false, &user.DefaultInfo{Name: "system:node:n"})
	askPolicy(b, a)
}

// askPolicy has the policy asked about a request.
func askPolicy(b *testing.B, a admission.Attributes) {
	versioned := &admission.VersionedAttributes{Attributes: a, VersionedKind: a.GetKind(),
		VersionedObject: admission.NewLazyObject(a.GetObject()), VersionedOldObject: admission.NewLazyObject(a.GetOldObject())}
	v := validatorOf(b, "placement-by-binding.yaml")
	for b.Loop() {
		v.Validate(b.Context(), a.GetResource(), versioned, nil, nil, apiservercel.RuntimeCELCostBudget, nil)
	}
}

// validatorOf is the policy as the API server asks it.
func validatorOf(b *testing.B, file string) validating.Validator {
	b.Helper()
	text, err := fs.ReadFile(Folder("policies"), file)
	if err != nil {
		b.Fatal(err)
	}
	c := compile(b, text)
	var messages []cel.ExpressionAccessor
	for _, v := range c.policy.Spec.Validations {
		var message cel.ExpressionAccessor // nil for none, as the API server has it
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message)
	}
	policy := c.policy.Spec.FailurePolicy
	matcher := matchconditions.NewMatcher(c.condition(b, c.matches()), policy, "policy", "any", c.policy.Name)
	return validating.NewValidator(c.condition(b, c.validations()), matcher, c.condition(b, nil), c.allowingNone(messages), policy, nil)
}

// allowingNone evaluates expressions, and does without the ones that a policy leaves out.
func (c *compiled) allowingNone(expressions []cel.ExpressionAccessor) cel.ConditionEvaluator {
	return c.compiler.CompileCondition(expressions, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
}
