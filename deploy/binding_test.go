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

// BenchmarkBinding is the API server's cost of the policy for a Binding with a placement, by the
// scheduler, which is never refused, and by another user.
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

// BenchmarkStatus is the API server's cost of the policy when a kubelet writes a pod's status,
// which does not change the annotations.
func BenchmarkStatus(b *testing.B) {
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", Annotations: map[string]string{"berth.dev/placement": "{}"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main", Image: "app:1"}, {Name: "side", Image: "app:1"}}}}
	after := before.DeepCopy()
	after.Status.Phase = corev1.PodRunning
	a := admission.NewAttributesRecord(after, before, corev1.SchemeGroupVersion.WithKind("Pod"), "d", "p", corev1.SchemeGroupVersion.WithResource("pods"),
		"status", admission.Update, &metav1.UpdateOptions{}, false, &user.DefaultInfo{Name: "system:node:n"})
	askPolicy(b, a)
}

// askPolicy evaluates the policy for a request.
func askPolicy(b *testing.B, a admission.Attributes) {
	versioned := &admission.VersionedAttributes{Attributes: a, VersionedKind: a.GetKind(),
		VersionedObject: admission.NewLazyObject(a.GetObject()), VersionedOldObject: admission.NewLazyObject(a.GetOldObject())}
	v := validatorOf(b, "placement-by-binding.yaml")
	for b.Loop() {
		v.Validate(b.Context(), a.GetResource(), versioned, nil, nil, apiservercel.RuntimeCELCostBudget, nil)
	}
}

// validatorOf returns the policy's validator, as in the API server.
func validatorOf(b *testing.B, file string) validating.Validator {
	b.Helper()
	text, err := fs.ReadFile(Folder("policies"), file)
	if err != nil {
		b.Fatal(err)
	}
	c := compile(b, text)
	var messages []cel.ExpressionAccessor
	for _, v := range c.policy.Spec.Validations {
		var message cel.ExpressionAccessor // nil if there is none, as in the API server
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message)
	}
	policy := c.policy.Spec.FailurePolicy
	matcher := matchconditions.NewMatcher(c.condition(b, c.matches()), policy, "policy", "any", c.policy.Name)
	return validating.NewValidator(c.condition(b, c.validations()), matcher, c.condition(b, nil), c.allowingNone(messages), policy, nil)
}

// allowingNone compiles expressions; a policy need not have any.
func (c *compiled) allowingNone(expressions []cel.ExpressionAccessor) cel.ConditionEvaluator {
	return c.compiler.CompileCondition(expressions, cel.OptionalVariableDeclarations{}, environment.StoredExpressions)
}
