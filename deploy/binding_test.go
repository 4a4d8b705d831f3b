package deploy

import (
	"bytes"
	"io/fs"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// BenchmarkBinding is what the policies cost the API server for a Binding with a placement: by the
// scheduler, which is never refused, and by somebody else.
func BenchmarkBinding(b *testing.B) {
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "d", Annotations: map[string]string{
		"berth.dev/placement": `{"node":"n","sequence":7,"mode":"exact","containers":[{"name":"main","cpus":"2-5"}]}`,
	}}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	for _, by := range []string{"system:kube-scheduler", "somebody"} {
		a := admission.NewAttributesRecord(binding, nil, corev1.SchemeGroupVersion.WithKind("Binding"), "d", "p", corev1.SchemeGroupVersion.WithResource("pods"),
			"binding", admission.Create, &metav1.CreateOptions{}, false, &user.DefaultInfo{Name: by})
		versioned := &admission.VersionedAttributes{Attributes: a, VersionedKind: a.GetKind(), VersionedObject: binding}
		var asked []validating.Validator
		for _, file := range []string{"placement-by-binding.yaml", "demanded-plugins.yaml"} {
			asked = append(asked, validatorOf(b, file))
		}
		b.Run(by, func(b *testing.B) {
			for b.Loop() {
				for _, v := range asked {
					v.Validate(b.Context(), a.GetResource(), versioned, nil, nil, apiservercel.RuntimeCELCostBudget, nil)
				}
			}
		})
	}
}

// validatorOf compiles a policy as the API server does.
func validatorOf(b *testing.B, file string) validating.Validator {
	b.Helper()
	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	text, err := fs.ReadFile(Folder("policies"), file)
	if err == nil {
		err = yaml.UnmarshalStrict(bytes.SplitN(text, []byte("\n---\n"), 2)[0], &policy)
	}
	if err != nil {
		b.Fatal(err)
	}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		b.Fatal(err)
	}
	for _, v := range policy.Spec.Variables {
		compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	}
	evaluator := func(expressions []cel.ExpressionAccessor) cel.ConditionEvaluator {
		return compiler.CompileCondition(expressions, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	}
	var matches, validations, messages []cel.ExpressionAccessor
	for i := range policy.Spec.MatchConditions {
		matches = append(matches, (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i]))
	}
	for _, v := range policy.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message})
		var message cel.ExpressionAccessor // nil for none, as the API server has it
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message)
	}
	matcher := matchconditions.NewMatcher(evaluator(matches), policy.Spec.FailurePolicy, "policy", "any", policy.Name)
	return validating.NewValidator(evaluator(validations), matcher, evaluator(nil), evaluator(messages), policy.Spec.FailurePolicy, nil)
}
