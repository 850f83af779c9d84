package admission

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// evaluatedPolicy runs the policy that ships with the API server's own code.
type evaluatedPolicy struct {
	validator validating.Validator
}

// compilePolicy compiles the policy as an API server of a version does.
func compilePolicy(t testing.TB, minor uint) *evaluatedPolicy {
	t.Helper()
	spec := shippedPolicy(t).Spec
	compiler, err := admissioncel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, minor)))
	if err != nil {
		t.Fatal(err)
	}
	with := admissioncel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, v := range spec.Variables {
		result := compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, with, environment.NewExpressions)
		if result.Error != nil {
			t.Fatalf("variable %s: %v", v.Name, result.Error)
		}
	}
	var conditions, validations, messages, annotations []admissioncel.ExpressionAccessor
	for i := range spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&spec.MatchConditions[i]))
	}
	for _, v := range spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		messages = append(messages, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
	}
	for _, a := range spec.AuditAnnotations {
		annotations = append(annotations, &validating.AuditAnnotationCondition{Key: a.Key, ValueExpression: a.ValueExpression})
	}
	condition := func(expressions []admissioncel.ExpressionAccessor, authorized bool) admissioncel.ConditionEvaluator {
		evaluator := compiler.CompileCondition(expressions, admissioncel.OptionalVariableDeclarations{HasAuthorizer: authorized}, environment.NewExpressions)
		for _, err := range evaluator.CompilationErrors() {
			t.Fatal(err)
		}
		return evaluator
	}
	matcher := matchconditions.NewMatcher(condition(conditions, true), spec.FailurePolicy, "policy", "validate", policyName)
	return &evaluatedPolicy{validating.NewValidator(
		condition(validations, true), matcher, condition(annotations, true), condition(messages, false), spec.FailurePolicy, nil)}
}

// verdict is what the policy says within a budget.
func (p *evaluatedPolicy) verdict(t testing.TB, old, now *corev1.Node, who, manager string, budget int64) (applies bool, refusals []string, err error) {
	t.Helper()
	gvk, gvr := corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithResource("nodes")
	attributes := admission.NewAttributesRecord(now, old, gvk, "", now.Name, gvr, "", admission.Update,
		&metav1.UpdateOptions{FieldManager: manager}, false, &user.DefaultInfo{Name: who})
	versioned := &admission.VersionedAttributes{
		Attributes: attributes, VersionedKind: gvk,
		VersionedObject: admission.NewLazyObject(now), VersionedOldObject: admission.NewLazyObject(old),
	}
	nobody := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionDeny, "", nil
	})
	result := p.validator.Validate(t.Context(), gvr, versioned, nil, nil, budget, nobody)
	for _, d := range result.Decisions {
		switch {
		case d.Evaluation == validating.EvalError:
			return true, nil, fmt.Errorf("evaluate: %s", d.Message)
		case d.Action == validating.ActionDeny:
			refusals = append(refusals, d.Message)
		}
	}
	for _, a := range result.AuditAnnotations {
		if a.Action == validating.AuditAnnotationActionError {
			return true, nil, fmt.Errorf("evaluate audit annotation: %s", a.Error)
		}
	}
	return len(result.Decisions) > 0, refusals, nil
}

// No expression of the policy fails or leaves the budget, whatever a node looks
// like and however much there is on it.
func TestPolicyNeverFails_WH02(t *testing.T) {
	sizes := []struct{ keys, managers int }{{3, 5}, {300, 11}, {400, 50}, {401, 50}, {400, 51}, {600, 600}, {2, 601}}
	for _, minor := range []uint{30, 37} {
		p := compilePolicy(t, minor)
		for _, size := range sizes {
			for name, write := range writes() {
				t.Run(fmt.Sprintf("1.%d/%d keys, %d managers/%s", minor, size.keys, size.managers, name), func(t *testing.T) {
					old := laden(size.keys, size.managers)
					if name == "the first of ours" {
						old.Annotations, old.ManagedFields = map[string]string{}, old.ManagedFields[1:]
					}
					now := laden(size.keys, size.managers)
					write.edit(now)
					applies, refusals, err := p.verdict(t, old, now, write.who, write.manager, celconfig.RuntimeCELCostBudget)
					if err != nil {
						t.Fatal(err)
					}
					if large := size.keys > 400 || size.managers > 50; applies == large {
						t.Errorf("the policy looks at the write: %t", applies)
					}
					want := applies && strings.HasPrefix(name, "a manager gets") || applies && strings.HasPrefix(name, "all managers get") ||
						applies && name == "all annotations are removed"
					if (len(refusals) > 0) != want {
						t.Errorf("refused: %q, want a refusal: %t", refusals, want)
					}
				})
			}
		}
	}
}

// What ordinary traffic costs is a small part of what the API server grants.
func TestPolicyIsCheap(t *testing.T) {
	const tenth = celconfig.RuntimeCELCostBudget / 10
	p := compilePolicy(t, 37)
	for name, write := range writes() {
		t.Run(name, func(t *testing.T) {
			old, now := laden(300, 11), laden(300, 11)
			write.edit(now)
			if _, _, err := p.verdict(t, old, now, write.who, write.manager, tenth); err != nil {
				t.Errorf("with a tenth of the budget: %v", err)
			}
		})
	}
}

// WH-02: odd nodes, odd numbers, odd managers.
func TestPolicyReadsOddNodes_WH02(t *testing.T) {
	odd := oddNodes()
	for _, minor := range []uint{30, 37} {
		p := compilePolicy(t, minor)
		for before, old := range odd {
			for after, now := range odd {
				for who, manager := range map[string]string{operator.user: string(nodestate.OwnerNode), "alice": ""} {
					if _, _, err := p.verdict(t, old, now, who, manager, celconfig.RuntimeCELCostBudget); err != nil {
						t.Errorf("1.%d: from %q to %q by %s: %v", minor, before, after, who, err)
					}
				}
			}
		}
	}
}

// oddNodes are what API servers store although no client of ours writes it.
func oddNodes() map[string]*corev1.Node {
	seq := nodestate.OwnerNode.SeqKey()
	odd := map[string]*corev1.Node{"nothing": {}}
	for _, number := range []string{"", "0", "7", "-1", "1e3", "99999999999999999", "9223372036854775808", "x"} {
		odd["number "+number] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{seq: number, blobKey: number}}}
	}
	for _, raw := range []string{"null", `{"f:metadata":null}`, `{"f:metadata":"x"}`, `{"f:metadata":{"f:annotations":["x"]}}`,
		`{"f:metadata":{"f:annotations":{"f:` + stateKey + `":{},"f:` + blobKey + `":{}}}}`} {
		for _, operation := range []metav1.ManagedFieldsOperationType{"", "Apply", "Update"} {
			odd[string(operation)+" of "+raw] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Annotations:   map[string]string{stateKey: "x"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Operation: operation}, {Operation: operation, FieldsV1: metav1.NewFieldsV1(raw), Subresource: "status"}},
			}}
		}
	}
	return odd
}

// The policy knows the owner of every kind of key, in every form.
func TestPolicyKnowsTheOwners(t *testing.T) {
	p := compilePolicy(t, 37)
	for _, k := range keysOfAllForms() {
		owner, owned := nodestate.OwnerOf(k)
		if !owned {
			continue
		}
		for _, writer := range nodestate.Owners() {
			t.Run(fmt.Sprintf("%s by %s", k, writer), func(t *testing.T) {
				now := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{k: "1", writer.SeqKey(): "1"}}}
				now.ManagedFields = []metav1.ManagedFieldsEntry{entry(writer, metav1.ManagedFieldsOperationApply, now.Annotations)}
				for who, want := range map[string]bool{operator.user: writer != owner, "alice": true} {
					_, refusals, err := p.verdict(t, &corev1.Node{}, now, who, string(writer), celconfig.RuntimeCELCostBudget)
					if err != nil || (len(refusals) > 0) != want {
						t.Errorf("by %s: refused %q, want a refusal: %t, error %v", who, refusals, want, err)
					}
					if want && who != operator.user && !strings.Contains(strings.Join(refusals, " "), string(owner)) &&
						!strings.Contains(strings.Join(refusals, " "), string(writer)) {
						t.Errorf("%q names neither %s nor %s", refusals, owner, writer)
					}
				}
			})
		}
	}
}
